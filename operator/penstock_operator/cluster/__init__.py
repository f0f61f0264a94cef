"""The only I/O with the cluster: one client, what is read of a job, what is done for it."""
