"""Plots of results. They need only the JSON of a record, so they can be drawn again without a run."""
