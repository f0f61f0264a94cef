"""The parts of every simulated run: virtual time, the network, faults."""
