"""The keeper of a worker: the process that holds Lease, commits, coordinator and signals.

What belongs here: one loop around the pure cores of ``protocol``, and the threads that perform
their actions. What does not: decisions (``protocol``), user code, Arrow, numba. It stays small,
so that user code holding the interpreter's lock can never cost the leadership.

    inbox <── rpc threads, engine reader, lanes (answers), desired watcher, signals
      │
      └─> loop (main thread): core.step(event) -> actions ──> lanes, peer senders, engine process
"""
