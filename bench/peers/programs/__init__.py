"""The job of the comparison for each engine. Each runs in that engine's own environment."""
