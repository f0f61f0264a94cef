"""The agreements: ids, key groups, plans, manifests, control messages, the StreamJob.

The operator may import this package and ``base``, and nothing else of Penstock. Standard
library only; no I/O, no clock, no randomness.
"""
