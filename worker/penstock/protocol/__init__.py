"""Pure state machines: every rule of the protocols, as state + event -> actions.

What belongs here: decisions about epochs, terms, attempts, versions, channels, held records,
watermarks. What does not: I/O, clocks, randomness, threads, Arrow. A shell (an engine's task
thread, a keeper, the simulator) performs the actions and feeds their outcome back as events.
"""
