"""The published applications: CPU time of a row, and rates at the source and at the sink, with checkpoints.

    python -m bench.applications [APPLICATION ...] [--workers N] [--turns N] [--scale X] [--out FOLDER]

Each run is ``penstock run`` on an example. With every status of the job, the CPU time of its engines (user and system)
is read, and so are the rows that the source has read and those that have reached the sink. The figures are those
between the first status behind a fifth of the rows and the last one before the end of the input. So starting, building
functions and the last checkpoint are not in them. CPU time says more than a rate on a shared machine;
``rows_per_core_s`` is its inverse. Rows at the sink are counted, and compared with a count that is made from the input
alone.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench import machine, processes, records, runner
from bench.application_inputs import APPLICATIONS, EXAMPLES, Application, make_input
from bench.records import Record

TITLE = "published applications: CPU time of a row, rates at the source and at the sink"
STATE_MEMORY = "6Gi"  # state that does not fit is read from disk: some 20 us a row
BEGIN = 0.2  # the share of the rows behind which CPU time counts


@dataclass(frozen=True, slots=True)
class Mark:
    """What a status said, and the CPU seconds of the engines at that time."""

    at: float
    read: int
    sunk: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Run:
    """What a run has read, and what reached its sink."""

    rows: int
    expected: int
    sunk: int
    marks: list[Mark]
    exit_code: int = 0

    def wrong(self) -> list[str]:
        """List what is not as it must be."""
        found = []
        if self.exit_code:
            found.append(f"exit status {self.exit_code}")
        if self.sunk != self.expected:
            found.append(f"{self.sunk} rows at the sink, not {self.expected}")
        if not self.figures():
            found.append(f"{self.rows} rows are too few: they were read between two statuses")
        return found

    def figures(self) -> dict[str, float]:
        """Return the figures; none if too few statuses came."""
        inside = [mark for mark in self.marks if BEGIN * self.rows <= mark.read < self.rows]
        if len(inside) < 2:
            return {}
        first, last = inside[0], inside[-1]
        read, span_s, cpu_s = last.read - first.read, last.at - first.at, last.cpu_s - first.cpu_s
        return {
            "cpu_ns_per_row": round(cpu_s / read * 1e9, 1),
            "rows_per_core_s": round(read / cpu_s),
            "sink_rows_per_core_s": round(self.sunk / self.rows * read / cpu_s),
            "rows_per_s": round(read / span_s),
            "sink_rows_per_s": round((last.sunk - first.sunk) / span_s),
            "ns_per_row": round(span_s / read * 1e9, 2),
            "cpu_s": round(cpu_s, 2),
            "measured_s": round(span_s, 1),
        }


def run(folder: Path, application: Application, rows: int, workers: int, replicas: int | None = None) -> Run:
    """Run once, with its input in ``folder``; with so many ``replicas`` of each step, if that is said."""
    place, source = Path(tempfile.mkdtemp(dir=folder)), folder / application.example
    parameters = [*application.settings]
    if application.table is None:
        expected = rows = rows // application.splits * application.splits
        parameters += [f"rows={rows // application.splits}", f"splits={application.splits}"]
    else:
        if not source.exists():
            make_input(source, application, rows)
        rows, expected = json.loads((source / "_expected.json").read_text())
        parameters += [f"input={source}", f"output={place / 'out'}"]
    file = EXAMPLES / f"{application.example}.yaml"
    if replicas is not None:
        file = altered(application.example, "replicas", place, replicas=replicas)
    command = [sys.executable, "-m", "penstock.cli", "run", str(file)]
    command += ["--workers", str(workers), "--json", "--dir", str(place / "state")]
    command += ["--set", f"state.memory={STATE_MEMORY}"]
    command += [word for each in parameters for word in ("--set", f"job.parameters.{each}")]
    # A status that is read late would have a later CPU time.
    at_once = runner.environment(runner.ROOT) | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=at_once) as job:
        assert job.stdout is not None, "it was asked for"
        marks, sunk = marks_of(job.stdout, application.sink)
    return Run(rows, expected, sunk, marks, job.returncode)


def altered(example: str, how: str, folder: Path, **parameters: object) -> Path:
    """Write the job file of an example that a function of ``bench.altered`` changes; return its path."""
    in_python = EXAMPLES / f"{example}_python.yaml"
    file = in_python if in_python.exists() else EXAMPLES / f"{example}.yaml"
    plain = yaml.safe_load(file.read_text())
    job = plain["spec"]["job"]
    job["parameters"] |= {"example": job["entrypoint"].partition(":")[0], **parameters}
    job["entrypoint"] = f"bench.altered:{how}"
    target = folder / "job.yaml"
    target.write_text(yaml.safe_dump(plain, sort_keys=False))
    return target


def marks_of(lines: Iterable[str], sink: str) -> tuple[list[Mark], int]:
    """Return a mark for each status that tells of more rows while all engines live, and the rows at the sink."""
    marks: list[Mark] = []
    sunk = 0
    for line in lines:
        at, status = time.monotonic(), json.loads(line)
        if not status.get("steps"):
            continue
        used = [processes.cpu_s([worker["engine_pid"] or 0]) for worker in status["workers"]]
        read = status["steps"][0]["rows_in"]
        sunk = next(step["rows_in"] for step in status["steps"] if step["name"] == sink)
        if all(used) and read > (marks[-1].read if marks else 0):  # an engine that has ended says 0
            marks.append(Mark(at, read, sunk, sum(used)))
    return marks, sunk


def measure(folder: Path, name: str, options: argparse.Namespace) -> list[Record]:
    """Run an application several times."""
    application = APPLICATIONS[name]
    workers = application.workers or options.workers
    found = []
    for turn in range(options.turns):
        others = processes.Others()
        one = run(folder, application, int(application.rows * options.scale), workers)
        results, wrong = one.figures(), one.wrong()
        results["others_share"] = others.share()
        print(f"   {name:24} {workers} workers  {results}  {wrong or 'exact'}", flush=True)
        cell: dict[str, Any] = {"name": name, "rows": one.rows, "workers": workers}
        label = name if workers == 1 else f"{name} workers={workers}"
        found.append(
            {"name": label, "turn": turn, "scenario": cell, "exact": not wrong, "wrong": wrong, "results": results}
        )
    return found


def main(arguments: list[str] | None = None) -> int:
    """Measure the applications named on the command line, or all; exit 0 when all counts were exact."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.applications")
    parser.add_argument("application", nargs="*", default=tuple(APPLICATIONS), metavar="APPLICATION")
    parser.add_argument("--workers", type=int, default=1, help="of those that do not say it themselves")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of rows")
    parser.add_argument("--out", type=Path, default=records.OUT, help="folder of the results")
    options = parser.parse_args(arguments)
    made_on, runs = machine.describe(), []
    for name in options.application:
        with tempfile.TemporaryDirectory() as folder:
            runs += measure(Path(folder), name, options)
    stem, record = records.of_scenario("applications", TITLE, "bench.applications", made_on, runs)
    print(f"   kept in {records.write(stem, record, options.out)}")
    return 0 if all(one["exact"] for one in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
