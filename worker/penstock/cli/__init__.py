"""The command line: the composition root. Each command is a small file; heavy imports are late."""

import gc
import os
import signal
from typing import NoReturn


def main() -> None:
    """Run the command line and leave with its exit code."""
    gc.disable()  # until modules are loaded, which live on: looking among them costs a sixth
    if os.getpid() == 1:
        # The first process of a container has no default actions: a SIGTERM that came while it
        # loads would be lost, and the pod would wait until its grace is over.
        signal.signal(signal.SIGTERM, _end)
    from penstock.cli.app import run  # noqa: PLC0415  importing the package costs nothing

    run()


def _end(number: int, _frame: object) -> NoReturn:
    """Do what the kernel does for any other process."""
    os._exit(128 + number)
