"""Waiting for a cluster, with a deadline. The error text has the last state that was seen."""

import subprocess
import time
from collections.abc import Callable
from typing import TypeVar

from tests.integration.kubernetes.kubectl import Refused

T = TypeVar("T")
LOOK_EVERY_S = 0.2
WORTH_TELLING_S = 2.0


class TooLate(AssertionError):
    """The awaited state was not reached before the deadline."""


def wait_for(
    what: str,
    look: Callable[[], T | None],
    timeout_s: float,
    say: Callable[[], str] | None = None,
    *,
    every_s: float = LOOK_EVERY_S,
) -> T:
    """Call a function until it returns something other than None or False. Raises TooLate.

    Some tests make the API server unreachable for a moment; then the call is repeated. ``say``
    describes the state for the error text. Longer waits are printed: tests spend their time there.
    """
    begun = time.monotonic()
    deadline = begun + timeout_s
    complaint = ""
    while time.monotonic() < deadline:
        try:
            if found := look():
                _tell(what, time.monotonic() - begun)
                return found
            complaint = ""
        except (Refused, subprocess.TimeoutExpired) as refused:
            complaint = f"; last: {refused}"
        time.sleep(every_s)
    stood = "" if say is None or complaint else f"; it stood at {say()}"
    raise TooLate(f"no {what} within {timeout_s:g} s{complaint}{stood}")


def _tell(what: str, took_s: float) -> None:
    if took_s >= WORTH_TELLING_S:
        print(f"  {took_s:5.1f} s until: {what}")
