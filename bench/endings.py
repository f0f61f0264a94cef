"""When a benchmark gets SIGTERM, it ends the processes that it has started."""

import signal
import sys
from types import FrameType

TERMINATED = 143


def end_with_children() -> None:
    """Turn SIGTERM into an exit that runs every ``finally``, where processes are ended."""
    signal.signal(signal.SIGTERM, _exit)


def _exit(_number: int, _frame: FrameType | None) -> None:
    sys.exit(TERMINATED)
