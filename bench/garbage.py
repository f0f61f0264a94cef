"""Measures the CPU time of Python's garbage collector in an engine, beside that of the engine.

A source of the job makes a :class:`Collections` in its engine, and tells with each checkpoint what was measured so far.
"""

import gc
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SUFFIX = ".collections"
Told = dict[str, float]


class Collections:
    """Adds up the time of all collections of this process, from the first checkpoint on."""

    def __init__(self, folder: Path) -> None:
        """Tell what is measured in a file of ``folder``."""
        self._file = folder / f"{os.getpid()}{SUFFIX}"
        self._begun = 0.0
        self._seconds, self._count = 0.0, 0
        self._notes = False

    def _note(self, phase: str, info: Mapping[str, Any]) -> None:
        if phase == "start":
            self._begun = time.thread_time()
        else:
            self._seconds += time.thread_time() - self._begun
            self._count += 1

    def tell(self) -> None:
        """Add a line to the file."""
        if not self._notes:
            self._notes = True
            gc.callbacks.append(self._note)
        told = {"at": time.monotonic(), "cpu_s": time.process_time(), "gc_s": self._seconds, "count": self._count}
        with self._file.open("a") as file:
            file.write(json.dumps(told) + "\n")


def read(folder: Path) -> list[list[Told]]:
    """Return what each engine has told."""
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in sorted(folder.glob(f"*{SUFFIX}"))]


def figures(told: list[list[Told]]) -> dict[str, float]:
    """Return the share of the CPU time that collections took, and their number per second of one engine.

    Both are from the first checkpoint to the last. Empty if no engine had two checkpoints.
    """
    spans = [(lines[0], lines[-1]) for lines in told if len(lines) > 1]
    if not spans:
        return {}
    rise = {name: sum(last[name] - first[name] for first, last in spans) for name in ("at", "cpu_s", "gc_s", "count")}
    return {
        "gc_share": round(rise["gc_s"] / rise["cpu_s"], 6),
        "collections_per_s": round(rise["count"] / rise["at"], 2),
    }
