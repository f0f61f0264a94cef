"""A whole job in the caller's thread, with the parts that an engine is made of.

    caller ── run / harness ── InProcessTasks ── orders ──> InProcessEngine (EngineCore), one a worker
                                                             └── TaskLoop (steps, state, sinks), one a task
                                                                 └── channels of penstock.transport

No thread, process, socket or signal handler is made here. What a cluster has beside its engines is
left out: leases, terms, heartbeats, rescales of a running job. This package is what ``ps.run`` and
``penstock.testing`` are made of. It belongs above the engine, and the command line above it.
"""
