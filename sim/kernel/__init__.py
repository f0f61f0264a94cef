"""Virtual time, the network, faults: what a simulated run is made of."""
