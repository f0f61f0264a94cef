"""What judges a run: invariants and the oracle of its output."""
