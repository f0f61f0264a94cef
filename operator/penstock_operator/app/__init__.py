"""The composition root: settings from the environment, the Lease, metrics, probes and logs."""
