"""Sources and sinks: the adapters between files, generators or pushed rows and the engine.

Each implements a Protocol of ``penstock.ports``; ``registry`` opens them from a graph's data.
"""
