"""The checks of a run: invariants, and the oracle of its output."""
