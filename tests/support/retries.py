"""Calls between processes that a busy machine may be too slow for at first."""

import time
from collections.abc import Callable
from typing import TypeVar

from penstock.cluster.rpc import Unreachable

WITHIN_S = 30.0
Reply = TypeVar("Reply")


def answered(call: Callable[[], Reply]) -> Reply:
    """Call until there is an answer, or another error than that there is none."""
    until = time.monotonic() + WITHIN_S
    while True:
        try:
            return call()
        except Unreachable:
            if time.monotonic() > until:
                raise
