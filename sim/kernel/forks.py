"""A fork of this process for one piece of work. It begins in the state of this process and ends then.

Only for processes of one thread: a fork has the forking thread and no other.
"""

import gc
import os
from collections.abc import Callable
from multiprocessing import Pipe
from typing import TypeVar

T = TypeVar("T")


def in_a_fork(work: Callable[[], T]) -> T:
    """Return the result of ``work`` in a fork of this process. Raises EOFError when the fork dies."""
    ours, theirs = Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        gc.freeze()  # what ends garbage of the parent may wait for its threads, which are not here
        try:
            theirs.send(work())
        finally:
            os._exit(0)
    theirs.close()
    try:
        found: T = ours.recv()
        return found
    finally:
        ours.close()
        os.waitpid(child, 0)
