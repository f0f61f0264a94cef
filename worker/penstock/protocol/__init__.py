"""Pure state machines: every rule of the protocols, as state + event -> actions.

Decisions about epochs, terms, attempts, versions, channels, held rows and watermarks belong here.
I/O, clocks, randomness, threads and Arrow do not. A shell (an engine's task thread, a keeper, the
simulation) performs the actions and gives their outcomes back as events.
"""
