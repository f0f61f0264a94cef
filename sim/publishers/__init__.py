"""Publishers of one sink task over a virtual server: the connectors that ship, in orders that a seed chooses."""
