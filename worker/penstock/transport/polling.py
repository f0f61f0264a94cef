"""Lets the thread that waits for a message poll its socket, instead of a thread of gRPC.

By default gRPC gives sockets to an event engine: a message wakes a thread of the engine, and that
thread wakes the waiting one. With the older poller the waiting thread polls itself. The library has
both; decision 024 compares their costs.
"""

import os

_SETTING = "GRPC_EXPERIMENTS"  # read when the process first uses gRPC
_WAITING_THREADS_POLL = "-event_engine_client,-event_engine_listener"


def let_waiting_threads_poll() -> None:
    """Let waiting threads poll their sockets. Call it before the first use of Flight.

    It changes the whole process, so only our own processes call it. A value that the user has set
    in the environment is kept.
    """
    os.environ.setdefault(_SETTING, _WAITING_THREADS_POLL)
