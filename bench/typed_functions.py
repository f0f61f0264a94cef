"""Functions with types, compiled and run by Python: records per second from source to sink, with checkpoints.

    python -m bench.typed_functions [FUNCTION ...] [--turns N] [--rows N] [--out FOLDER]

Each run is `penstock run` on Parquet files with one worker. FUNCTION is `fraud` (a ring of the last five states of
60,000 entities, and an 18 x 18 Markov model), `spike` (the mean of the last 1,000 readings of 54 motes) or `count` (a
running count of 10,000 words). Runs of both modes alternate. Both modes must write equal rows. The rate is records per
second of work of the task that calls the function, as the engine measures it; `wall` is records per second of the whole
run, with the start of the engine and the compilation. `core` runs the compiled job on one processor, with a checkpoint
each second, once with 2^24 rows and once with 2^26. The difference of both runs gives the rate from source to sink and
the CPU time of a row; `start_s` is the rest of the shorter run: the start of the engine and the compilation.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import penstock as ps
from bench import machine, records
from bench.variants import verdict

TITLE = "functions with types, compiled and run by Python"
FILE_ROWS = 1 << 20
ROWS = {"never": 1 << 20, "require": 1 << 24}
CORE_ROWS = (1 << 24, 1 << 26)
WITHIN_S = 600.0
STATES = tuple(a + t + e for a in "LMH" for t in "NH" for e in "LNS")
CHANCES = np.random.default_rng(1).dirichlet(np.ones(18), 18)


@ps.record
class Txn:
    """A transaction of an entity."""

    entity: str
    txn: int
    state: ps.Enum[STATES]  # type: ignore[valid-type]


@ps.record
class Alert:
    """A transaction whose history is unlikely."""

    entity: str
    txn: int
    score: float


@ps.state
class Seen:
    """The last five states of an entity."""

    last: ps.Ring[ps.int8, 5]  # type: ignore[valid-type]


def fraud(r: Txn, s: Seen, out: ps.Out[Alert]) -> None:
    """Emit transactions whose last four changes of state are unlikely on average."""
    s.last.append(r.state)
    if len(s.last) < 5:
        return
    total = 0.0
    for i in range(1, 5):
        total += 1.0 - CHANCES[s.last[i - 1], s.last[i]]
    if total / 4 > 0.96:
        out.emit(Alert(r.entity, r.txn, total / 4))


@ps.record
class Reading:
    """A temperature."""

    mote: int
    value: float


@ps.record
class Spike:
    """A temperature that is far from the mean."""

    mote: int
    value: float
    mean: float


@ps.state
class Window:
    """The last 1,000 temperatures of a mote, and their sum."""

    last: ps.Ring[float, 1000]  # type: ignore[valid-type]
    sum: float = 0.0


def spike(r: Reading, s: Window, out: ps.Out[Spike]) -> None:
    """Emit values that differ from the mean of the last 1,000 by more than 3 %."""
    s.sum += r.value - s.last.append(r.value)
    mean = s.sum / len(s.last)
    if abs(r.value - mean) > 0.03 * mean:
        out.emit(Spike(r.mote, r.value, mean))


@ps.record
class Word:
    """A word."""

    word: str


@ps.record
class Count:
    """How often a word has come."""

    word: str
    n: int


@ps.state
class Counter:
    """The count of a word."""

    n: int = 0


def count(r: Word, s: Counter, out: ps.Out[Count]) -> None:
    """Emit the running count."""
    s.n += 1
    out.emit(Count(r.word, s.n))


def _txns(rng: np.random.Generator) -> pa.Table:
    who = pc.binary_join_element_wise("entity-", pa.array(rng.integers(0, 60_000, FILE_ROWS)).cast("string"), "")
    states = pa.array(STATES).take(pa.array(rng.integers(0, 18, FILE_ROWS)))
    return pa.table({"entity": who, "txn": np.arange(FILE_ROWS), "state": states})


def _readings(rng: np.random.Generator) -> pa.Table:
    return pa.table({"mote": rng.integers(0, 54, FILE_ROWS), "value": rng.normal(20, 0.25, FILE_ROWS)})


def _words(rng: np.random.Generator) -> pa.Table:
    numbers = pa.array(rng.integers(0, 10_000, FILE_ROWS)).cast("string")
    return pa.table({"word": pc.binary_join_element_wise("a-word-of-a-text-", numbers, "")})


FUNCTIONS: dict[str, tuple[Callable[..., None], str, Callable[[np.random.Generator], pa.Table]]] = {
    "fraud": (fraud, "entity", _txns),
    "spike": (spike, "mote", _readings),
    "count": (count, "word", _words),
}


def job(params: ps.Parameters) -> ps.Job:
    """Build the job of one run."""
    function, key, make = FUNCTIONS[params["function"]]
    columns = {field.name: str(field.type) for field in make(np.random.default_rng(0)).schema}
    mode: Literal["never", "require"] = "require" if params["mode"] == "require" else "never"
    made = ps.Job()
    rows = made.source("rows", ps.parquet(params["input"]), columns=columns)
    step = rows.key_by(key).process("function", function, compiled=mode)
    step.sink("output", ps.parquet(params["output"]))
    return made


def make_input(folder: Path, function: str, rows: int) -> None:
    """Write the input of a function."""
    folder.mkdir()
    rng = np.random.default_rng(7)
    for part in range(rows // FILE_ROWS):
        pq.write_table(FUNCTIONS[function][2](rng), folder / f"part-{part:03}.parquet")


def run(folder: Path, function: str, mode: str, rows: int) -> dict[str, Any]:
    """Run the job once. Returns its rates, its times, and a digest of its output."""
    place, source = Path(tempfile.mkdtemp(dir=folder)), folder / f"{function}-{rows}"
    if not source.exists():
        make_input(source, function, rows)
    parameters = {"function": function, "mode": mode, "input": str(source), "output": str(place / "output")}
    job = {"entrypoint": "bench.typed_functions:job", "parameters": parameters}
    spec = {"replicas": 1, "job": job, "checkpoint": {"interval": "1s"}}
    head = {"apiVersion": "penstock.dev/v1alpha1", "kind": "StreamJob", "metadata": {"name": "typed-functions"}}
    file = place / "job.json"
    file.write_text(json.dumps(head | {"spec": spec}))
    command = [sys.executable, "-m", "penstock.cli", "run", str(file), "--json", "--dir", str(place / "state")]
    begun, worked = time.monotonic(), _children_cpu_s()
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    took, worked = time.monotonic() - begun, _children_cpu_s() - worked
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    last = json.loads(done.stdout.splitlines()[-1])
    results = {"rows_per_s": rows / _busy_s(last), "wall_rows_per_s": rows / took}
    return {"results": results, "digest": _digest(place), "took_s": took, "cpu_s": worked}


def _children_cpu_s() -> float:
    """Return the CPU time of the processes that have ended, with their own children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _busy_s(status: Mapping[str, Any]) -> float:
    return next(float(step["busy_s"]) for step in status["steps"] if step["name"] == "function")


def _digest(place: Path) -> list[float]:
    """Return how many rows were written, and the sum of each column of numbers without rounding."""
    table = ds.dataset(place / "output", exclude_invalid_files=True).to_table()
    numbers = [column for column in table.columns if pa.types.is_primitive(column.type)]
    return [table.num_rows, *(math.fsum(column.to_pylist()) for column in numbers)]


def compare(folder: Path, function: str, turns: int, rows: Mapping[str, int]) -> list[dict[str, Any]]:
    """Alternate both modes, and compare their output for the rows of a run of Python."""
    expected = run(folder, function, "never", rows["never"])["digest"]
    same = run(folder, function, "require", rows["never"])["digest"] == expected
    found = []
    for turn in range(turns):
        for mode in ("require", "never") if turn % 2 == 0 else ("never", "require"):
            one = run(folder, function, mode, rows[mode])
            name = f"{function}/{'compiled' if mode == 'require' else 'python'}"
            rates = "  ".join(f"{key} {value:>12,.0f}" for key, value in one["results"].items())
            print(f"   {name:16} {rates}  exact: {same}", flush=True)
            cell = {"name": name, "function": function, "mode": mode, "rows": rows[mode]}
            wrong = [] if same else ["the modes differ"]
            found.append({"name": name, "turn": turn, "scenario": cell, "exact": same, "wrong": wrong, **one})
    return found


def on_one_core(folder: Path, function: str, turns: int) -> list[dict[str, Any]]:
    """Run the compiled job on one processor with few rows and with many, and compare the two."""
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    found = []
    for turn in range(turns):
        few, many = (run(folder, function, "require", rows) for rows in CORE_ROWS)
        more = CORE_ROWS[1] - CORE_ROWS[0]
        rate = more / (many["took_s"] - few["took_s"])
        results = {
            "core_rows_per_s": rate,
            "core_cpu_ns_per_row": (many["cpu_s"] - few["cpu_s"]) * 1e9 / more,
            "start_s": few["took_s"] - CORE_ROWS[0] / rate,
        }
        wrong = [] if many["digest"][0] > few["digest"][0] else ["more rows did not give more output"]
        name = f"{function}/core"
        print(f"   {name:16} {'  '.join(f'{key} {value:,.1f}' for key, value in results.items())}", flush=True)
        cell = {"name": name, "function": function, "mode": "core", "rows": CORE_ROWS[1]}
        found.append(
            {"name": name, "turn": turn, "scenario": cell, "exact": not wrong, "wrong": wrong, "results": results}
        )
    os.sched_setaffinity(0, processors)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Measure the functions named on the command line, or all; exit 0 when all were exact."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.typed_functions")
    parser.add_argument("function", nargs="*", default=tuple(FUNCTIONS), metavar="FUNCTION")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rows", type=int, help="of each compiled run; a multiple of 2^20")
    parser.add_argument("--out", type=Path, default=records.OUT, help="folder of the results")
    options = parser.parse_args(arguments)
    made_on, runs, verdicts = machine.describe(), [], []
    rows = ROWS | ({"require": options.rows} if options.rows else {})
    with tempfile.TemporaryDirectory() as folder:
        for function in options.function:
            told = compare(Path(folder), function, options.turns, rows)
            runs += [*told, *on_one_core(Path(folder), function, options.turns)]
            names = (f"{function}/python", f"{function}/compiled")
            rates = [[r["results"]["rows_per_s"] for r in told if r["name"] == name] for name in names]
            verdicts.append(verdict(names, "rows_per_s", *rates))
            print(f"   {function}: {verdicts[-1]}")
    stem, record = records.of_scenario("typed-functions", TITLE, "bench.typed_functions", made_on, runs)
    record["verdicts"] = verdicts
    print(f"   kept in {records.write(stem, record, options.out)}")
    return 0 if all(one["exact"] for one in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
