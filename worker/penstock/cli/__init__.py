"""The command line: the composition root. Files group commands by what they act on; heavy imports are late."""

import atexit
import gc
import os
import signal
import sys

TYPE_CHECKING = False  # as mypy knows it; typing itself costs more than all of the above
if TYPE_CHECKING:
    from typing import NoReturn

EXIT_INTERRUPTED = 130  # penstock.cli.exits, which is not loaded yet, names it as well


def main() -> None:
    """Run the command line and leave with its exit code."""
    signal.signal(signal.SIGINT, _interrupted)  # first: loading takes a second
    # Last of all: from then on Python would let a signal end the process, and its exit code would be lost.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    gc.disable()  # until modules are loaded, which live on: looking among them costs a sixth
    _open_closed()
    if os.getpid() == 1:
        # The first process of a container has no default actions: a SIGTERM that came while it
        # loads would be lost, and the pod would wait until its grace is over.
        signal.signal(signal.SIGTERM, _end)
    from penstock.cli.app import run  # noqa: PLC0415  importing the package costs nothing

    run()


def _interrupted(_number: int, _frame: object) -> "NoReturn":
    """End by Ctrl-C, at any moment at which nothing has to be stopped, in an import for example.

    An exception would come out of whatever is being done, with a stack trace.
    """
    os._exit(EXIT_INTERRUPTED)


def _open_closed() -> None:
    """Open what the caller has closed (``>&-``): the next file would have its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this
            mode = "w" if number else "r"
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115  as long as we


def _end(number: int, _frame: object) -> "NoReturn":
    """Do what the kernel does for any other process."""
    os._exit(128 + number)
