"""One run that is measured: it is started, watched from outside, checked, and made a record."""

import subprocess
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from bench import processes, table
from bench.connectors.marks import Watched, as_plain, figures, watch
from bench.records import Record

RUN_MAX_S = 120.0
LAST_CHARS = 1500
SHOWN = ("rows_per_s", "rows_per_core_s", "engine_cores", "server_cores", "measured_s", "seconds")


@dataclass(frozen=True, slots=True)
class Run:
    """A run of ``rows`` rows. ``server`` is the pid of the server that it uses.

    ``start`` begins it in a folder of its own. ``visible`` says how many rows a reader sees; ``check`` what is wrong
    with them, when the job has ended. A run that does not ``end`` by itself is ended when so many rows are visible,
    and ``settle`` has waited for what must come. A ``whole`` run is measured from its first status to its last row.
    """

    name: str
    rows: int
    server: int
    start: Callable[[Path], AbstractContextManager["subprocess.Popen[str]"]]
    visible: Callable[[Path], int]
    check: Callable[[Path], list[str]]
    ends: bool
    settle: Callable[[], None] = lambda: None
    whole: bool = False


def measure(run: Run, turn: int) -> Record:
    """Run once, and print its figures."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        others = processes.Others()
        with run.start(folder) as process:
            wanted = None if run.ends else run.rows
            seen = watch(process, run.server, lambda: _seen(run, folder), wanted, RUN_MAX_S)
            share = others.share(seen.cpu_s)
            run.settle()
        wrong = [*_ended(run, seen, folder), *run.check(folder)]
    found = {
        **figures(seen.marks, whole=run.whole),
        "rows": run.rows,
        "seconds": round(seen.seconds, 1),
        "others_share": share,
    }
    found["memory_max_mib"] = round(seen.memory_max / 2**20)
    if "rows_per_s" not in found:
        wrong = [*wrong, f"{run.rows} rows are too few: {len(seen.marks)} marks"]
    shown = ", ".join(f"{table.title(k)} {table.number(found[k])}" for k in SHOWN if k in found)
    print(f"   {run.name:36} {shown}{''.join(f'   {line}' for line in wrong)}", flush=True)
    return {
        "name": run.name, "turn": turn, "exact": not wrong, "wrong": wrong, "results": found,
        "marks": as_plain(seen.marks),
    }  # fmt: skip


def _seen(run: Run, folder: Path) -> int | None:
    if run.whole and not (folder / "statuses").read_text():
        return None
    return run.visible(folder)


def _ended(run: Run, seen: Watched, folder: Path) -> list[str]:
    if seen.code == (0 if run.ends else None) and (run.ends or seen.reached):
        return []
    log = (folder / "log").read_text(errors="replace")[-LAST_CHARS:]
    return [f"exit status {seen.code} after {seen.seconds:.0f} s: {log}"]
