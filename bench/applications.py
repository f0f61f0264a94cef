"""The published applications: CPU time of a row, and rows at the source and at the sink, with checkpoints.

    python -m bench.applications [APPLICATION ...] [--turns N] [--scale X] [--out FOLDER]

Each run is ``penstock run`` on an example with one worker. The CPU time of its engine (user and system) is read with
every status, and so is the number of rows that the source has read. The figure is that between the first status behind
a fifth of the rows and the last one, so starting and building functions is not in it. CPU time says more than a rate on
a shared machine; ``rows_per_core_s`` is its inverse. Rows at the sink are counted, and compared with a count that is
made from the input alone.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench import machine, processes, records
from bench.records import Record
from penstock_spark import equipment, fraud, linear_road, spike

TITLE = "published applications: CPU time of a row"
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
FILE_ROWS = 1 << 20
LINES = 100_000  # of a file
WAYS = 64  # expressways, of which the first ones are written
STATE_MEMORY = "6Gi"  # state that does not fit is read from disk: some 20 us a row
BEGIN = 0.2  # the share of the rows behind which CPU time counts
Count = Callable[[pa.Table], int]


@dataclass(frozen=True, slots=True)
class Application:
    """An example, its sink, its rows, and its input: ``files`` calls of ``table`` with the number of the file.

    ``count`` says how many rows of the sink a table gives. Without a table the example makes its rows.
    """

    example: str
    sink: str
    rows: int
    table: Callable[[int], pa.Table] | None = None
    count: Count = len
    settings: tuple[str, ...] = ()


def _lines(number: int) -> pa.Table:
    """Lines of 42 words: Zipf's law over 9,000 words."""
    random = np.random.default_rng(number % 2)
    words = np.array(["".join(w) for w in random.choice(list("abcdefghij"), (9000, 4))], dtype=object)
    shares = np.arange(1, 9001) ** -1.05
    drawn = words[random.choice(9000, (LINES, 42), p=shares / shares.sum())]
    return pa.table({"line": [" ".join(line) for line in drawn]})


@cache
def _transactions() -> pa.Table:
    return fraud.rows_of(fraud.FraudRequest(FILE_ROWS, 1, entities=4096), 0)


@cache
def _readings() -> pa.Table:
    return spike.rows_of(spike.SpikeRequest(FILE_ROWS, 1, motes=4), 0)


@cache
def _machine() -> pa.Table:
    return equipment.rows_of(equipment.EquipmentRequest(FILE_ROWS, 1), 0)


def _of_others(table: pa.Table, column: str, number: int) -> pa.Table:
    """Return the same rows of other entities."""
    at, found = table.schema.get_field_index(column), table[column]
    text = pa.types.is_string(found.type)
    named = pc.binary_join_element_wise(found, str(number), "-") if text else pc.add(found, 1000 * number)
    return table.set_column(at, column, named)


def _traffic(number: int) -> pa.Table:
    """An expressway with 2,300 reports a second, as the benchmark's generator gives."""
    rows = FILE_ROWS // 2
    request = linear_road.LinearRoadRequest(WAYS * rows, WAYS, seconds=rows // 2300)
    return linear_road.rows_of(request, number)


def _words(table: pa.Table) -> int:
    return int(pc.sum(pc.list_value_length(pc.split_pattern(table["line"], " "))).as_py())


def _alerts(table: pa.Table) -> int:
    """Return how many scores are above the threshold, from five states of an entity that follow each other."""
    sys.path.insert(0, str(EXAMPLES))
    import fraud as example  # type: ignore[import-not-found]  # noqa: PLC0415  the model is that of the example

    states = np.asarray(pc.index_in(table["state"], pa.array(example.STATES)))
    order = np.argsort(np.asarray(table["entity_id"].dictionary_encode().combine_chunks().indices), kind="stable")
    entity = np.asarray(table["entity_id"].dictionary_encode().combine_chunks().indices)[order]
    misses = (1.0 - example.synthesised())[states[order][:-1], states[order][1:]]
    total = (misses[:-3] + misses[1:-2]) + misses[2:-1] + misses[3:]
    return int(np.count_nonzero((total / 4 > example.THRESHOLD) & (entity[4:] == entity[:-4])))


def _spikes(table: pa.Table) -> int:
    found = 0
    motes, values = np.asarray(table["mote"]), np.asarray(table["temperature"])
    for mote in np.unique(motes):
        own = values[motes == mote]
        total = np.cumsum(np.rint(own * 10_000).astype(np.int64))
        width = np.minimum(np.arange(1, len(own) + 1), 1000)
        total[1000:] -= total[:-1000].copy()
        average = total / width / 10_000
        found += int(np.count_nonzero(np.abs(own - average) > 0.25 * average))
    return found


def _delays(table: pa.Table) -> int:
    """Every valve follows its sensor here, so each change of a valve is a delay."""
    return sum(int(np.count_nonzero(np.diff(np.asarray(table[v]).astype(np.int8)))) for _, v in equipment.PAIRS)


def _reports(table: pa.Table) -> dict[str, Any]:
    columns = {name: np.asarray(table[name]) for name in ("Type", "VID", "Dir", "Seg", "Lane")}
    kept = columns["Type"] == 0
    order = np.argsort(columns["VID"][kept], kind="stable")
    return {name: values[kept][order] for name, values in columns.items()}


def _notifications(table: pa.Table) -> int:
    cars = _reports(table)["VID"]
    return 3 * len(cars) - len(np.unique(cars))


def _tolls(table: pa.Table) -> int:
    r = _reports(table)
    same = np.all([r[name][1:] == r[name][:-1] for name in ("VID", "Dir", "Seg")], axis=0)
    return int(np.count_nonzero(~np.concatenate(([False], same)) & (r["Lane"] != linear_road.EXIT_LANE)))


APPLICATIONS = {
    "wordcount": Application("wordcount", "output", 16 * LINES, _lines, _words),
    "fraud": Application(
        "fraud", "alerts", 16 * FILE_ROWS, lambda n: _of_others(_transactions(), "entity_id", n), _alerts
    ),
    "spike": Application("spike", "spikes", 64 * FILE_ROWS, lambda n: _of_others(_readings(), "mote", n), _spikes),
    "equipment": Application(
        "equipment",
        "delays_out",
        32 * FILE_ROWS,
        lambda n: _of_others(_machine(), "machine", n),
        _delays,
        ("machines=true",),
    ),
    "routing": Application("linear_road_routing", "notifications", 8 * FILE_ROWS, _traffic, _notifications),
    "linear_road": Application("linear_road", "tolls_out", 4 * FILE_ROWS, _traffic, _tolls),
    "pipeline": Application("pipeline", "end", 400_000_000, settings=("splits=1",)),
    "producer_consumer": Application("producer_consumer", "consumer", 2_000_000_000, settings=("splits=1",)),
}


def make_input(folder: Path, application: Application, rows: int) -> int:
    """Write files until there are so many rows; return the rows that the sink must have."""
    assert application.table is not None, "the others make their own rows"
    folder.mkdir()
    written, expected = 0, 0
    for number in itertools.count():
        table = application.table(number)
        pq.write_table(table, folder / f"part-{number:03}.parquet", row_group_size=1 << 16)
        written, expected = written + len(table), expected + application.count(table)
        if written >= rows:
            (folder / "_expected.json").write_text(json.dumps([written, expected]))
            return expected
    raise AssertionError("the loop returns")


def run(folder: Path, application: Application, rows: int) -> dict[str, Any]:
    """Run once. Returns rows read, those at the sink and those expected, and the CPU time of a row."""
    place, source = Path(tempfile.mkdtemp(dir=folder)), folder / application.example
    parameters = [*application.settings]
    if application.table is None:
        expected = rows
        parameters.append(f"rows={rows}")
    else:
        if not source.exists():
            make_input(source, application, rows)
        rows, expected = json.loads((source / "_expected.json").read_text())
        parameters += [f"input={source}", f"output={place / 'out'}"]
    command = [sys.executable, "-m", "penstock.cli", "run", str(EXAMPLES / f"{application.example}.yaml")]
    command += ["--workers", "1", "--json", "--dir", str(place / "state")]
    command += ["--set", f"state.memory={STATE_MEMORY}"]
    command += [word for each in parameters for word in ("--set", f"job.parameters.{each}")]
    at_once = os.environ | {"PYTHONUNBUFFERED": "1"}  # a status that is read late would have a later CPU time
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=at_once) as job:
        assert job.stdout is not None, "it was asked for"
        marks, last = _marks(job.stdout)
    if job.returncode != 0:
        raise SystemExit(f"{application.example}: exit status {job.returncode}")
    found = next(step["rows_in"] for step in last["steps"] if step["name"] == application.sink)
    first = next((mark for mark in marks if mark[0] >= BEGIN * rows), None)
    if first is None or marks[-1][0] == first[0]:
        raise SystemExit(f"{application.example}: {rows} rows are too few: the run was over between two statuses")
    cpu_s, read = marks[-1][1] - first[1], marks[-1][0] - first[0]
    return {"rows": rows, "at_sink": found, "expected": expected, "ns": cpu_s / read * 1e9, "cpu_s": cpu_s}


def _marks(lines: Iterable[str]) -> tuple[list[tuple[int, float]], dict[str, Any]]:
    """Return the rows read and the CPU seconds of the engine whenever a status tells of more rows, and the last one."""
    marks: list[tuple[int, float]] = []
    last: dict[str, Any] = {}
    for line in lines:
        status = json.loads(line)
        if not status.get("steps"):
            continue
        last = status
        used = processes.cpu_s(worker["engine_pid"] for worker in status["workers"] if worker["engine_pid"])
        read = status["steps"][0]["rows_in"]
        if used and read > (marks[-1][0] if marks else 0):  # an engine that has ended says 0
            marks.append((read, used))
    return marks, last


def measure(folder: Path, name: str, turns: int, scale: float) -> list[Record]:
    """Run an application several times."""
    application = APPLICATIONS[name]
    found = []
    for turn in range(turns):
        one = run(folder, application, int(application.rows * scale))
        wrong = [] if one["at_sink"] == one["expected"] else [f"{one['at_sink']} rows, not {one['expected']}"]
        results = {
            "cpu_ns_per_row": round(one["ns"], 1),
            "rows_per_core_s": round(1e9 / one["ns"]),
            "sink_rows_per_core_s": round(one["at_sink"] / one["rows"] * 1e9 / one["ns"]),
            "cpu_s": round(one["cpu_s"], 2),
        }
        print(f"   {name:18} {results}  exact: {not wrong}", flush=True)
        cell = {"name": name, "rows": one["rows"]}
        found.append(
            {"name": name, "turn": turn, "scenario": cell, "exact": not wrong, "wrong": wrong, "results": results}
        )
    return found


def main(arguments: list[str] | None = None) -> int:
    """Measure the applications named on the command line, or all; exit 0 when all counts were exact."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.applications")
    parser.add_argument("application", nargs="*", default=tuple(APPLICATIONS), metavar="APPLICATION")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of rows")
    parser.add_argument("--out", type=Path, default=records.OUT, help="folder of the results")
    options = parser.parse_args(arguments)
    made_on, runs = machine.describe(), []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.application:
            runs += measure(Path(folder), name, options.turns, options.scale)
    record: Record = {
        "kind": "scenario",
        "scenario": "applications",
        "title": TITLE,
        "command": records.command_line("bench.applications", sys.argv[1:]),
        "machine": made_on,
        "targets": [],
        "runs": runs,
    }
    stem = f"applications-{made_on['revision']}-{time.strftime('%Y%m%dT%H%M%S')}"
    print(f"   kept in {records.write(stem, record, options.out)}")
    return 0 if all(one["exact"] for one in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
