"""Sources and sinks: the adapters between the engine and files, generators or pushed rows.

Each implements a Protocol of ``penstock.ports``. ``registry`` opens them as a graph describes them.
"""
