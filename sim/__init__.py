"""The deterministic simulation of a whole cluster.

The state machines of ``penstock.protocol`` are the real ones. Clock, network, metadata store and
shared directory around them are virtual. ``docs/simulation.md`` says how to use it.
"""
