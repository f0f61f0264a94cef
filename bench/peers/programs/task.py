"""The task that every engine gets, and the form of its answer. Standard library only.

Row ``i`` of split ``s`` is ``words[indices[(s * len // splits + i) % len]]``: all engines get
the same words in the same order. The answer has ``marks``, each of them a time of the monotonic clock and
the number of rows that were counted until then, and the final count of each word.
"""

import json
import sys
import time
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MARK_INTERVAL_S = 0.1
Marks = list[tuple[float, int]]


@dataclass(frozen=True, slots=True)
class Task:
    """``rows`` words are to be counted, in ``splits`` equal parts. The engine may write into ``folder``."""

    folder: Path
    rows: int
    splits: int
    checkpoint_s: float

    @property
    def rows_per_split(self) -> int:
        """Return the number of rows of each split."""
        return self.rows // self.splits

    def block(self) -> list[str]:
        """Return the rows of the block that each split reads again and again."""
        words = (self.folder / "words.txt").read_text().split("\n")
        indices = array("i")
        indices.frombytes((self.folder / "indices.i32").read_bytes())
        return [words[i] for i in indices]

    def start_of(self, split: int, block_rows: int) -> int:
        """Return where in the block a split begins."""
        return split * block_rows // self.splits

    def answer(self, counts: Mapping[str, int], marks: Marks, **more: Any) -> None:
        """Write the answer."""
        plain = {"counts": dict(counts), "marks": marks, **more}
        (self.folder / "answer.json").write_text(json.dumps(plain))


def read_task() -> Task:
    """Read the task whose folder is the first argument."""
    folder = Path(sys.argv[1])
    plain = json.loads((folder / "task.json").read_text())
    return Task(folder, int(plain["rows"]), int(plain["splits"]), float(plain["checkpoint_s"]))


class Progress:
    """Records the number of counted rows, at most ten times a second."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.marks: Marks = []
        self.rows = 0
        self._next = 0.0

    def add(self, rows: int) -> None:
        """Count rows."""
        self.rows += rows
        now = time.monotonic()
        if now >= self._next:
            self._next = now + MARK_INTERVAL_S
            self.marks.append((now, self.rows))

    def ended(self) -> Marks:
        """Return all marks, the last one now."""
        self.marks.append((time.monotonic(), self.rows))
        return self.marks


def merged(many: list[Marks]) -> Marks:
    """Add up the marks of several processes: all rows until each time that any of them recorded."""
    steps = sorted(
        (at, rows - before)
        for marks in many
        for (at, rows), (_, before) in zip(marks, [(0.0, 0), *marks], strict=False)
    )
    total, found = 0, []
    for at, rows in steps:
        total += rows
        found.append((at, total))
    return found
