"""The keeper's process: ``python -m penstock.keeper LAUNCH_FILE SUPERVISOR_PID``."""

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from penstock.cluster.launch import KeeperLaunch
from penstock.cluster.parent import die_with_parent
from penstock.contract.codec import decode
from penstock.keeper.keeper import Keeper
from penstock.keeper.keeper_messages import KeeperInbox, Leave
from penstock.keeper.platforms import LocalPlatform
from penstock.metrics.logs import Log


def main(arguments: list[str]) -> int:
    """Run one keeper to its end. Gives the exit status."""
    file, parent = arguments
    launch = decode(KeeperLaunch, Path(file).read_bytes())
    log = Log("keeper", {"job": launch.job, "worker": launch.ordinal})
    keeper = Keeper(launch, LocalPlatform(launch), log)
    _handle_signals(keeper.inbox)
    die_with_parent(int(parent), signal.SIGTERM)
    keeper.run()
    return 0


def _handle_signals(inbox: KeeperInbox) -> None:
    def leave(number: int, _frame: FrameType | None) -> None:
        # The handler may have interrupted the loop while it holds the queue's own lock.
        item = Leave(signal.Signals(number).name)
        threading.Thread(target=inbox.put, args=(item,), daemon=True).start()

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of gRPC and lanes that wait for nothing must not hold the process back.
    os._exit(status)
