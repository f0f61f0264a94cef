"""Parallel patterns, pipeline and farm. They only add steps to a graph."""
