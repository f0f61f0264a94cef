"""Results that a process computes one at a time, and then keeps.

This has the one lock of the pure part. It decides nothing: with one thread it is as if it were not there
(decision 240).
"""

import threading
from collections.abc import Callable, Hashable
from functools import cache
from typing import TypeVar

Argument = TypeVar("Argument", bound=Hashable)
Result = TypeVar("Result")


def one_at_a_time(compute: Callable[[Argument], Result]) -> Callable[[Argument], Result]:
    """Return a function that calls ``compute`` and keeps its results, by argument. One thread at a time computes.

    An argument whose computation raises is computed again. ``compute`` must not call the returned function.
    """
    lock = threading.Lock()

    @cache
    def kept(argument: Argument) -> Result:
        with lock:
            return compute(argument)

    return kept
