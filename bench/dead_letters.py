"""What bad rows cost: a job with dead letters, with and without one bad row in 8,192.

    python -m bench.dead_letters [FUNCTION ...] [--turns N] [--rows N] [--different] [--out FOLDER]

Each run is `penstock run` on Parquet files of texts. A function converts the texts to numbers; one
text in 8,192 is not a number. FUNCTION is `record` (called for each row), `arrow` (one call of an
Arrow kernel for a batch) or `loop` (a Python loop over a batch): these raise. `mask` (kernels of
Arrow) and `caught` (a Python loop) look for bad texts themselves and return a `ps.Refusing`. With
``--different`` all bad texts of a file differ. Runs with clean and with bad input alternate. The rate
is rows per second of work of the job's only task, as the engine measures it. The rows of both outputs
are counted.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
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

TITLE = "one bad row in 8,192, as a dead letter"
BAD_EVERY = 8192
FILE_ROWS = 1 << 20
ROWS = {"record": 1 << 22, "arrow": 1 << 25, "loop": 1 << 23, "mask": 1 << 25, "caught": 1 << 23}
NUMBERS = {"number": "float64"}
WITHIN_S = 600.0


def by_record(record: dict[str, Any]) -> dict[str, Any]:
    """Make a number of one text."""
    return {"number": float(record["text"])}


def by_arrow(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Make numbers of all texts in one call."""
    return pa.record_batch({"number": pc.cast(batch.column("text"), pa.float64())})


def by_loop(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Make numbers of all texts, one after the other."""
    numbers = [float(text) for text in batch.column("text").to_pylist()]
    return pa.record_batch({"number": numbers})


def by_mask(batch: pa.RecordBatch) -> ps.Refusing:
    """Make numbers of all texts in few calls, and refuse those that begin with a letter."""
    texts = batch.column("text")
    bad = pc.utf8_is_alpha(pc.utf8_slice_codeunits(texts, 0, 1))
    numbers = pc.cast(pc.if_else(bad, pa.scalar(None, pa.string()), texts), pa.float64())
    return ps.Refusing(pa.record_batch({"number": numbers}), bad, "no number")


def by_caught(batch: pa.RecordBatch) -> ps.Refusing:
    """Make numbers of all texts, one after the other, and refuse those that raise."""
    texts = batch.column("text").to_pylist()
    bad = np.zeros(len(texts), np.bool_)
    numbers: list[float | None] = []
    for row, text in enumerate(texts):
        try:
            numbers.append(float(text))
        except ValueError:
            numbers.append(None)
            bad[row] = True
    return ps.Refusing(pa.record_batch({"number": pa.array(numbers)}), bad, "no number")


FUNCTIONS = {
    "record": by_record, "arrow": by_arrow, "loop": by_loop, "mask": by_mask, "caught": by_caught,
}  # fmt: skip


def job(params: ps.Parameters) -> ps.Job:
    """Build the job of one run."""
    made = ps.Job()
    texts = made.source("texts", ps.parquet(params["input"]), columns={"text": "string"})
    name = params["function"]
    per: Literal["batch", "record"] = "record" if name == "record" else "batch"
    function = FUNCTIONS[name]
    parsed = texts.map("parse", function, per=per, columns=NUMBERS, on_error="dead-letter")
    parsed.dead_letter.sink("dead", ps.parquet(params["dead"]))
    parsed.sink("output", ps.parquet(params["output"]))
    return made


def make_input(folder: Path, rows: int, bad: bool, different: bool) -> None:
    """Write texts of numbers. In the middle of every 8,192 rows, one is not a number."""
    folder.mkdir()
    texts = [str(n / 7) for n in range(FILE_ROWS)]
    if bad:
        numbers = range(FILE_ROWS // BAD_EVERY)
        texts[BAD_EVERY // 2 :: BAD_EVERY] = [f"none{n if different else ''}" for n in numbers]
    table = pa.table({"text": texts})
    for part in range(rows // FILE_ROWS):
        pq.write_table(table, folder / f"part-{part:03}.parquet")


def run(folder: Path, function: str, rows: int, *, bad: bool, different: bool = False) -> dict[str, Any]:
    """Run the job once. Returns its rate, and whether both outputs have the right number of rows."""
    place = Path(tempfile.mkdtemp(dir=folder))
    source = folder / f"{rows}-{'bad' if bad else 'clean'}"
    if not source.exists():
        make_input(source, rows, bad, different)
    parameters = {"function": function, "input": str(source)}
    parameters |= {name: str(place / name) for name in ("output", "dead")}
    spec = {"replicas": 1, "job": {"entrypoint": "bench.dead_letters:job"}}
    spec["job"] |= {"parameters": parameters}  # type: ignore[operator]
    head = {"apiVersion": "penstock.dev/v1alpha1", "kind": "StreamJob"}
    file = place / "job.json"
    file.write_text(json.dumps(head | {"metadata": {"name": "dead-letters"}, "spec": spec}))
    command = [sys.executable, "-m", "penstock.cli", "run", str(file), "--json"]
    done = subprocess.run(
        [*command, "--dir", str(place / "state")],
        capture_output=True, text=True, timeout=WITHIN_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    last = json.loads(done.stdout.splitlines()[-1])
    letters = rows // BAD_EVERY if bad else 0
    counted = {name: _count(place / name) for name in ("output", "dead")}
    wrong = [] if counted == {"output": rows - letters, "dead": letters} else [str(counted)]
    return {"exact": not wrong, "wrong": wrong, "results": {"rows_per_s": rows / _busy_s(last)}}


def _busy_s(status: Mapping[str, Any]) -> float:
    return max(float(step["busy_s"]) for step in status["steps"])


def _count(folder: Path) -> int:
    return ds.dataset(folder, exclude_invalid_files=True).count_rows() if folder.exists() else 0


def compare(folder: Path, function: str, rows: int, turns: int, *, different: bool) -> list[dict[str, Any]]:
    """Alternate runs with clean and bad input. The order of the two changes each time."""
    found = []
    for turn in range(turns):
        for bad in (False, True) if turn % 2 == 0 else (True, False):
            one = run(folder, function, rows, bad=bad, different=different)
            name = f"{function}/{'bad' if bad else 'clean'}"
            print(f"   {name:14} {one['results']['rows_per_s']:>14,.0f} rows/s  exact: {one['exact']}")
            cell = {"name": name, "function": function, "bad_rows": bad, "different": different}
            found.append({"name": name, "turn": turn, "scenario": cell, **one})
    return found


def _rates(runs: list[dict[str, Any]], name: str) -> list[float]:
    return [run["results"]["rows_per_s"] for run in runs if run["name"] == name]


def main(arguments: list[str] | None = None) -> int:
    """Measure the functions named on the command line, or all; exit 0 when all were exact."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.dead_letters")
    parser.add_argument("function", nargs="*", default=tuple(FUNCTIONS), metavar="FUNCTION")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rows", type=int, help="of each run; a multiple of 2^20")
    parser.add_argument("--different", action="store_true", help="no bad text comes twice")
    parser.add_argument("--out", type=Path, default=records.OUT, help="folder of the results")
    options = parser.parse_args(arguments)
    made_on, runs, verdicts = machine.describe(), [], []
    with tempfile.TemporaryDirectory() as folder:
        for function in options.function:
            rows = options.rows or ROWS[function]
            told = compare(Path(folder), function, rows, options.turns, different=options.different)
            runs += told
            names = (f"{function}/clean", f"{function}/bad")
            rates = [[r["results"]["rows_per_s"] for r in told if r["name"] == name] for name in names]
            verdicts.append(verdict(names, "rows_per_s", *rates))
            print(f"   {function}: {verdicts[-1]}")
    stem, record = records.of_scenario("dead-letters", TITLE, "bench.dead_letters", made_on, runs)
    record["verdicts"] = verdicts
    print(f"   kept in {records.write(stem, record, options.out)}")
    return 0 if all(one["exact"] for one in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
