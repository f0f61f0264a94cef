"""The deterministic simulation of a whole cluster, and fakes of every port.

Nothing here mocks the core: the simulator drives the real state machines of ``protocol`` under a
virtual clock, network, metadata store and shared directory. The fakes pass the same contract
checks (``contracts``) as the real adapters.
"""
