"""Decides: observed objects and the time in, actions and a status out. Pure and level-triggered.

Nothing here remembers anything: all that must outlive a crash is in an object of the cluster.
"""
