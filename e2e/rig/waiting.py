"""Waiting for a cluster: with a deadline, and with the last thing seen in the complaint."""

import subprocess
import time
from collections.abc import Callable
from typing import TypeVar

from tests.integration.kubernetes.kubectl import Refused

T = TypeVar("T")
LOOK_EVERY_S = 0.2
WORTH_TELLING_S = 2.0


class TooLate(AssertionError):
    """What was waited for did not come."""


def wait_for(
    what: str,
    look: Callable[[], T | None],
    timeout_s: float,
    say: Callable[[], str] | None = None,
    *,
    every_s: float = LOOK_EVERY_S,
) -> T:
    """Look every so often until something other than None or False comes back. Raises TooLate.

    An API server that is away for a moment is part of some tests: it is asked again. ``say``
    tells where things stood when it was too late. A longer wait is printed: it is what tests are
    made of.
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
