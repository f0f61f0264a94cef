"""Ends a process with its parent, where the system can; elsewhere sockets and time limits do."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4


def die_with_parent(parent_pid: int, number: signal.Signals) -> None:
    """Ask the kernel for ``number`` when the parent's starting thread ends (Linux only).

    A parent that died before this call is found by its changed process id, so nothing is missed.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), number)


def hide_from_others() -> None:
    """Keep processes of the same user out of this one's open files and memory (Linux only).

    Else user code could write to the container's log without the wrapping of its lines, by
    ``/proc/1/fd/2``. A child that is another program begins without it.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
