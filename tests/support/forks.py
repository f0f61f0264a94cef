"""The fork server of a test process: it loads once what each engine needs, which takes 1.6 s of a core."""

import atexit
from functools import cache

from penstock.cluster.host import ForkServer


class SharedForkServer(ForkServer):
    """Outlives the clusters that use it. It ends with this process."""

    def close(self) -> None:
        """Stay for the next cluster."""


@cache
def shared_fork_server() -> ForkServer:
    """Return the one of this process."""
    made = SharedForkServer()
    atexit.register(ForkServer.close, made)
    return made
