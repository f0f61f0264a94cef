"""Who looks at the sockets of Flight: who waits for a message, not threads of gRPC's own.

gRPC hands sockets to an event engine by default: a message wakes one of its threads, which wakes
the one that waits for it. The older poller lets whoever waits look itself. Both are in the library;
decision 024 has what each costs.
"""

import os

_SETTING = "GRPC_EXPERIMENTS"  # read when the process first uses gRPC
_WAITING_THREADS_POLL = "-event_engine_client,-event_engine_listener"


def poll_where_waited() -> None:
    """Let threads that wait for a message poll its socket; before the first use of Flight.

    For the whole process, so only for one of our own. A setting from outside stays.
    """
    os.environ.setdefault(_SETTING, _WAITING_THREADS_POLL)
