"""The engine that ships, in a simulated cluster: real threads in an order that the seed chooses."""
