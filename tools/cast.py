"""Records the picture of the README: ``python -m tools.cast`` writes docs/cast.svg.

A job runs in a terminal of its own. When its screen shows a certain text, a command is run and shown
below. The picture shows exactly what the programs wrote, at the time at which they wrote it. Pauses
longer than ``PAUSE_MAX_S`` are shortened to that.
"""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tools.terminal import Frame, Line, Screen, svg

FILE = Path(__file__).resolve().parent.parent / "docs" / "cast.svg"
PENSTOCK = str(Path(sys.executable).with_name("penstock"))
COLUMNS, ROWS, PAUSE_MAX_S, END_S = 92, 16, 1.2, 5.0
JOB = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: words}
spec:
  replicas: 2
  checkpoint: {interval: 1s}
  job:
    graph:
      steps:
        - name: words
          source: {generator: {rows: 1000000, rate: 50000, splits: 4, keys: 10000}}
        - name: counts
          keyBy: [word]
          aggregate: {compute: [{name: count, function: count}]}
        - name: output
          sink: {parquet: {path: counts}}
"""
CHECK = """\
import pyarrow.dataset as ds
rows = ds.dataset("counts", exclude_invalid_files=True).to_table().group_by("word")
words = rows.aggregate([("count", "count"), ("count", "max"), ("count", "count_distinct")]).to_pylist()
exact = all(len({n for k, n in w.items() if k != "word"}) == 1 for w in words)
total = sum(w["count_count"] for w in words)
print(f"{total:,} counts of {len(words):,} words: each word has 1, 2, ... n, each once: {exact}")
"""


class Event(NamedTuple):
    """What came into a pane, and when."""

    at_s: float
    pane: int
    text: str


class Command(NamedTuple):
    """A command that is shown as ``shown`` and run when the job's screen has ``after``."""

    after: str
    shown: str
    run: Callable[[Path], str]


def kill(folder: Path) -> str:
    """End the engine of worker 1 as the kernel would."""
    status = json.loads(run(folder, PENSTOCK, "status", "words", "--json"))
    os.kill(status["workers"][1]["engine_pid"], signal.SIGKILL)
    return ""


def run(folder: Path, *words: str) -> str:
    """Return what a command printed."""
    return subprocess.run(words, cwd=folder, text=True, capture_output=True, check=True).stdout


COMMANDS = (
    Command(r"epoch [3-9]", "kill -9 $ENGINE_OF_WORKER_1   # it holds half of the counts", kill),
    Command(
        r"(?s)recovered.*epoch 1[0-9]",
        "penstock rescale words 3       # another worker, live",
        lambda folder: run(folder, PENSTOCK, "rescale", "words", "3"),
    ),
    Command(
        "committed through",
        "python check.py                # what is in the output files?",
        lambda folder: run(folder, sys.executable, "check.py"),
    ),
)


def record(folder: Path) -> Iterator[Event]:
    """Run the job and the commands, and give what was written as it comes."""
    start = time.monotonic()
    terminal = _begin(folder)
    waiting, screen, running = list(COMMANDS), Screen(), None
    text: str | None = ""
    with ThreadPoolExecutor(1) as pool:
        while waiting or running or text is not None:
            text = None if text is None else _read(terminal)
            if text:
                screen.feed(text)
                yield Event(time.monotonic() - start, 0, text)
            if running and (running.done() or text is None):
                yield Event(time.monotonic() - start, 1, running.result())
                running = None
            if waiting and not running and re.search(waiting[0].after, screen.text()):
                command = waiting.pop(0)
                yield Event(time.monotonic() - start, 1, f"\x1b[1m$\x1b[0m {command.shown}\n")
                running = pool.submit(command.run, folder)


def _begin(folder: Path) -> int:
    """Start the job with a terminal of its own; the descriptor is the terminal's other end."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS), LINES="24")
        os.execv(PENSTOCK, [PENSTOCK, "run", "words.yaml"])
    return terminal


def _read(terminal: int) -> str | None:
    """Return what the terminal has within a tenth of a second; None at its end."""
    if not select.select([terminal], [], [], 0.1)[0]:
        return ""
    try:
        return os.read(terminal, 1 << 16).decode(errors="replace")
    except OSError:  # so the kernel says that nobody has the other end any more
        return None


def frames(events: list[Event]) -> list[Frame]:
    """Return what was to be seen, with long pauses cut."""
    panes = (Screen(), Screen())
    for screen in panes:
        screen.feed("\x1b[1m$\x1b[0m penstock run words.yaml\n" if screen is panes[0] else "")
    made = [Frame(0.0, _picture(panes))]
    now = before = 0.0
    for event in events:
        panes[event.pane].feed(event.text)
        picture = _picture(panes)
        if picture != made[-1].lines:
            now += min(event.at_s - before, PAUSE_MAX_S)
            before = event.at_s
            made.append(Frame(round(now, 2), picture))
    return made


def _picture(panes: tuple[Screen, Screen]) -> tuple[Line, ...]:
    above = [line[:] for line in panes[0].lines()]
    above += [()] * (ROWS - len(above))
    rule: Line = (("─" * COLUMNS, "d"),)
    return (*above, rule, *panes[1].lines())


def main() -> None:
    """Record and draw."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "words.yaml").write_text(JOB)
        (folder / "check.py").write_text(CHECK)
        made = frames(list(record(folder)))
    FILE.write_text(svg(made, made[-1].at_s + END_S, COLUMNS), encoding="utf-8")
    print(f"{FILE.name}: {len(made)} frames, {made[-1].at_s:.0f} s, {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
