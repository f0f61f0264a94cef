"""Parallel patterns, pipeline and farm. They nest, and only add steps to a graph."""
