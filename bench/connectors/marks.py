"""Watches the output of a run from outside, and computes rates and CPU times from what was seen.

A mark is a moment at which more rows could be read than before, as a reader of committed rows sees it, with the CPU
time of the engine and of the server until then. So engines are compared by what they have published, each at the end
of one of its checkpoints.
"""

import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bench import processes

LOOK_EVERY_S = 0.1
WARM_UP_SHARE = 1 / 3  # of the time from the first mark to the last
MEASURED_MIN_S = 1.0


@dataclass(frozen=True, slots=True)
class Mark:
    """At ``at`` (seconds of the monotonic clock) so many rows were visible, and so much CPU time was used."""

    at: float
    rows: int
    engine_cpu_s: float
    server_cpu_s: float


class Cpu:
    """CPU time of a tree of processes; those that have ended keep what they were last seen to have used."""

    def __init__(self, root: int) -> None:
        """Count the process ``root`` and all its descendants."""
        self._root = root
        self._used: dict[int, float] = {}
        self.memory_max = 0

    def seconds(self) -> float:
        """Return the CPU time of all until now."""
        pids = processes.tree(self._root)
        self._used |= {pid: used for pid in pids if (used := processes.cpu_s([pid]))}
        self.memory_max = max(self.memory_max, processes.resident_bytes(pids))
        return sum(self._used.values())


@dataclass(frozen=True, slots=True)
class Watched:
    """What was seen of one run. ``code`` is the exit status, None while the process runs.

    ``reached``: all wanted rows were visible. ``cpu_s``: used by engine, server and who watched, meanwhile.
    """

    marks: list[Mark]
    code: int | None
    reached: bool
    memory_max: int
    seconds: float
    cpu_s: float


def watch(
    process: "subprocess.Popen[str]",
    server: int,
    visible: Callable[[], int | None],
    wanted: int | None,
    timeout_s: float,
) -> Watched:
    """Look until ``wanted`` rows are visible, the process ends, or the time is over. ``server`` is a pid.

    ``visible`` says None until the job runs: the first mark is then one without rows.
    """
    begun, marks = time.monotonic(), list[Mark]()
    engine, of_server = Cpu(process.pid), Cpu(server)
    server_s, own_s = of_server.seconds(), time.process_time()
    while True:
        code, now = process.poll(), time.monotonic()
        rows = visible()
        used = engine.seconds(), of_server.seconds() - server_s
        if rows is not None and rows > (marks[-1].rows if marks else -1):
            marks.append(Mark(now, rows, *used))
        reached = wanted is not None and (rows or 0) >= wanted
        if reached or code is not None or now - begun > timeout_s:
            return Watched(
                marks, code, reached, engine.memory_max, now - begun, sum(used) + time.process_time() - own_s
            )
        time.sleep(max(0.0, now + LOOK_EVERY_S - time.monotonic()))


def window(marks: Sequence[Mark]) -> list[Mark]:
    """Return the marks that are measured; none where they are too few.

    The first is the first one behind a third of the time, so a start is not measured. The last mark of a run is left
    out where others are enough: the end of the input cuts its checkpoint short.
    """
    if len(marks) < 2:
        return []
    warm = marks[0].at + (marks[-1].at - marks[0].at) * WARM_UP_SHARE
    inside = [mark for mark in marks if mark.at >= warm]
    kept = inside[:-1] if len(inside) > 2 else inside
    return kept if len(kept) > 1 and kept[-1].at - kept[0].at >= MEASURED_MIN_S else []


def figures(marks: Sequence[Mark], *, whole: bool = False) -> dict[str, float]:
    """Return rates and CPU times; none where the marks are too few.

    ``whole``: from the first mark to the last. A sink publishes behind what the job does, so only a whole run has all
    CPU time of its rows.
    """
    inside = marks if whole else window(marks)
    if len(inside) < 2:
        return {}
    first, last = inside[0], inside[-1]
    rows, span_s = last.rows - first.rows, last.at - first.at
    engine_s, server_s = last.engine_cpu_s - first.engine_cpu_s, last.server_cpu_s - first.server_cpu_s
    found = {
        "rows_per_s": rows / span_s,
        "measured_s": span_s,
        "engine_cores": engine_s / span_s,
        "server_cores": server_s / span_s,
        "server_cpu_ns_per_row": 1e9 * server_s / rows,
    }
    if engine_s:
        found |= {"rows_per_core_s": rows / engine_s, "cpu_ns_per_row": 1e9 * engine_s / rows}
    return {name: round(value, 3 if value < 100 else 1) for name, value in found.items()}


def as_plain(marks: Iterable[Mark]) -> list[list[float]]:
    """Return marks as a record keeps them, with times since the first one."""
    kept = list(marks)
    return [[round(m.at - kept[0].at, 2), m.rows, round(m.engine_cpu_s, 2), round(m.server_cpu_s, 2)] for m in kept]
