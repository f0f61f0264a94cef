"""Linear Road at the pace of its own clock: how old an answer is when its file appears. The benchmark allows 5 s.

    python -m bench.answers [EXPRESSWAYS ...] [--seconds N] [--memory X] [--out FOLDER]

Each expressway is a file, which is read at the rate of its reports, 2,300 a second. A row is due when a source that is
never late reads it. An answer is the toll of a car that enters a segment. Its age counts from the moment at which the
first row of its second was due until its file is there under its name. The folder is looked at every 20 ms. The number
of answers is checked.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import application_inputs, applications, machine, processes, records, runner
from bench.records import Record
from penstock_spark import linear_road

TITLE = "Linear Road at the pace of its clock: age of a toll when it can be read"
REPORTS_PER_S = 2300  # of an expressway
LOOK_EVERY_S = 0.02
PERCENTILES = {"p50": 50, "p99": 99, "max": 100}


class Appearances:
    """Notes when each file of a folder appears."""

    def __init__(self, folder: Path) -> None:
        """Look from now on."""
        self._folder = folder
        self._seen: dict[str, float] = {}
        self._ended = Event()
        self._thread = Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            self._note()

    def _note(self) -> None:
        for file in self._folder.glob("*.parquet"):
            self._seen.setdefault(file.name, time.monotonic())

    def end(self) -> dict[str, float]:
        """Stop; return the times."""
        self._ended.set()
        self._thread.join()
        self._note()
        return self._seen


def write_input(folder: Path, expressways: int, seconds: int) -> tuple[int, list[np.ndarray]]:
    """Write a file for each expressway. Returns the number of tolls, and the seconds of each file's rows."""
    folder.mkdir()
    request = linear_road.LinearRoadRequest(expressways * seconds * REPORTS_PER_S, expressways, seconds=seconds)
    tolls, times = 0, []
    for number in range(expressways):
        table = linear_road.rows_of(request, number)
        pq.write_table(table, folder / f"part-{number:03}.parquet")
        tolls += application_inputs.tolls(table)
        times.append(np.asarray(table["Time"]))
    return tolls, times


def measure(expressways: int, seconds: int, memory: str) -> Record:
    """Run once."""
    with tempfile.TemporaryDirectory() as name:
        folder, others = Path(name), processes.Others()
        expected, times = write_input(folder / "in", expressways, seconds)
        command = [sys.executable, "-m", "penstock.cli", "run", str(application_inputs.EXAMPLES / "linear_road.yaml")]
        command += ["--workers", "2", "--json", "--dir", str(folder / "state")]
        command += ["--set", f"state.memory={memory}"]
        given = {"input": folder / "in", "output": folder / "out", "rate": REPORTS_PER_S}
        command += [word for item in given.items() for word in ("--set", "job.parameters.{}={}".format(*item))]
        appearances = Appearances(folder / "out" / "tolls")
        at_once = runner.environment(runner.ROOT) | {"PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=at_once) as job:
            assert job.stdout is not None, "it was asked for"
            marks, _ = applications.marks_of(job.stdout, "tolls_out")
        seen = appearances.end()
        begun = min(mark.at - mark.read / (expressways * REPORTS_PER_S) for mark in marks)
        ages = ages_of({name: pq.read_table(folder / "out" / "tolls" / name) for name in seen}, seen, times, begun)
    wrong = [f"exit status {job.returncode}"] if job.returncode else []
    wrong += [] if len(ages) == expected else [f"{len(ages)} tolls, not {expected}"]
    results = {f"age_{name}_s": round(float(np.percentile(ages, share)), 2) for name, share in PERCENTILES.items()}
    results |= {"answers": len(ages), "within_5s_share": round(float(np.mean(ages <= 5)), 4)}
    results |= {"reports_per_s": expressways * REPORTS_PER_S, "others_share": others.share()}
    print(f"   {expressways} expressways: {json.dumps(results)} {wrong or 'exact'}", flush=True)
    cell = {"expressways": expressways, "seconds": seconds, "workers": 2, "memory": memory}
    label = f"answers expressways={expressways}"
    return {"name": label, "exact": not wrong, "wrong": wrong, "results": results, "scenario": cell, "hdr": None}


def ages_of(tables: dict[str, pa.Table], seen: dict[str, float], times: list[np.ndarray], begun: float) -> np.ndarray:
    """Return the age of each toll in seconds: from the moment at which the first row of its second was due."""
    found = [np.empty(0)]
    for name, table in tables.items():
        ways, at = np.asarray(table["XWay"]), np.asarray(table["Time"])
        for way in np.unique(ways):
            due = begun + np.searchsorted(times[way], at[ways == way]) / REPORTS_PER_S
            found.append(seen[name] - due)
    return np.concatenate(found)


def main(arguments: list[str] | None = None) -> int:
    """Measure with each number of expressways; exit 0 when all numbers of answers were right."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.answers")
    parser.add_argument("expressways", nargs="*", type=int, default=[4, 64], metavar="EXPRESSWAYS")
    parser.add_argument("--seconds", type=int, default=90, help="of traffic")
    parser.add_argument("--memory", default=applications.STATE_MEMORY, help="for the state of a worker")
    parser.add_argument("--out", type=Path, default=records.OUT, help="folder of the results")
    options = parser.parse_args(arguments)
    made_on = machine.describe()
    runs = [measure(expressways, options.seconds, options.memory) for expressways in options.expressways]
    stem, record = records.of_scenario("answers", TITLE, "bench.answers", made_on, runs)
    print(f"   kept in {records.write(stem, record, options.out)}")
    return 0 if all(run["exact"] for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
