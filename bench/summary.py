"""One line for each run that was ever stored: ``bench/results/summary.jsonl``.

A raw record has every sample. Only records of published figures stay in the tree. A line has the
figures of a run, and what is needed to judge them: file, revision, interpreter, command, exactness.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bench import records

FILE = records.PUBLISHED / "summary.jsonl"
Line = dict[str, Any]


def lines_of(stem: str, record: Mapping[str, Any]) -> Iterator[Line]:
    """Yield a line for each run of a record, and one for each of its comparisons."""
    machine = record["machine"]
    head = {"file": stem, "revision": machine["revision"], "python": machine["python"]}
    head |= {"kind": record["kind"], "command": record["command"]}
    for number, run in enumerate(record["runs"]):
        told = {"number": number, "run": run["name"], "exact": run["exact"]}
        yield {**head, **told, "figures": run["results"]}
    for verdict in record.get("verdicts", ()):
        yield {**head, "verdict": verdict}


def read(path: Path = FILE) -> list[Line]:
    """Return every line, in the order of the files' names."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(lines: Iterable[Line], path: Path = FILE) -> None:
    """Write all lines, each once, in the order of the files' names and of the runs."""
    spelt = {json.dumps(line, separators=(",", ":")): line for line in lines}
    ordered = sorted(spelt, key=lambda s: (spelt[s]["file"], spelt[s].get("number", len(spelt))))
    path.write_text("".join(f"{line}\n" for line in ordered))
