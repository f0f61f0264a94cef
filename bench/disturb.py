"""Disturbs a running job at given times: kills workers, and rescales."""

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.samples import Event, Samples
from bench.scenario import Disturbance
from penstock.supervisor import connect


@dataclass(frozen=True, slots=True)
class Target:
    """The job that is disturbed: its state folder and its name."""

    state: Path
    job: str


class Disturber(threading.Thread):
    """Waits for the first rows of the job, then disturbs it at the given times."""

    def __init__(self, due: tuple[Disturbance, ...], target: Target, samples: Samples) -> None:
        """Record each disturbance in ``samples.events``."""
        super().__init__(name="disturber", daemon=True)
        self._due = sorted((m for d in due for m in d.moments()), key=lambda m: m[0])
        self._target = target
        self._samples = samples
        self._over = threading.Event()

    def stop(self) -> None:
        """Stop. No further disturbance is made."""
        self._over.set()

    def run(self) -> None:
        """Make the disturbances that are due."""
        begun = self._first_rows()
        for at_s, what in self._due:
            if self._over.wait(max(0.0, begun + at_s - time.monotonic())):
                return
            self._do(what)

    def _first_rows(self) -> float:
        while not self._over.wait(0.05):
            counted = self._samples.step("counts", "rows_in")
            if counted and counted[-1][1]:
                break
        return time.monotonic()

    def _do(self, what: Disturbance) -> None:
        begun = time.monotonic()
        detail = DEEDS[what.do](what, self._target, self._samples)
        if detail is not None:
            self._samples.events.append(Event(begun - self._samples.begun, str(what), detail))


def _kill(what: Disturbance, _target: Target, samples: Samples) -> str | None:
    """Kill both processes of a worker, as if its machine was lost. None if there is no such worker."""
    leader = what.do == "kill-leader"
    workers = samples.statuses[-1]["workers"]
    found: list[dict[str, Any]] = [w for w in workers if w["leader"] == leader]
    if not found:
        return None
    for pid in (found[0]["keeper_pid"], found[0]["engine_pid"]):
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return f"worker {found[0]['ordinal']}"


def _rescale(what: Disturbance, target: Target, _samples: Samples) -> str:
    client = connect(target.state, target.job)
    try:
        begun = time.monotonic()
        answer = client.rescale(what.workers)
        return f"{answer.text} ({time.monotonic() - begun:.2f} s from request to settled)"
    finally:
        client.close()


Deed = Callable[[Disturbance, Target, Samples], str | None]
DEEDS: dict[str, Deed] = {"kill": _kill, "kill-leader": _kill, "rescale": _rescale}
