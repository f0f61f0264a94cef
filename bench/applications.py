"""The published applications: CPU time of a row, and rows at the source and at the sink, with checkpoints.

    python -m bench.applications [APPLICATION ...] [--turns N] [--scale X] [--out FOLDER]

Each run is ``penstock run`` on an example with one worker, which begins with building its functions. So an application
runs with few rows and with many: the CPU time of all its processes (user and system) differs by that of the rows more.
CPU time says more than a rate on a shared machine; ``rows_per_core_s`` is its inverse. Rows at the sink are counted,
and compared with a count that is made from the input alone.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench import machine, records
from bench.records import Record
from penstock_spark import equipment, fraud, linear_road, spike

TITLE = "published applications: CPU time of a row"
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
WITHIN_S = 900.0
Rows = Callable[[int, int, int], pa.Table]  # of all rows, of files, the number of the file
Count = Callable[[pa.Table], int]


@dataclass(frozen=True, slots=True)
class Application:
    """An example, its input, the step and number of rows at its sink, and two numbers of rows."""

    example: str
    sink: str
    few: int
    many: int
    rows: Rows | None = None
    count: Count = field(default=len)
    settings: tuple[str, ...] = ()
    unit: str = "rows"


def _lines(rows: int, files: int, number: int) -> pa.Table:
    """Lines of about 42 words: Zipf's law over 9,000 words."""
    random = np.random.default_rng(number)
    words = np.array(["".join(w) for w in random.choice(list("abcdefghij"), (9000, 4))], dtype=object)
    shares = np.arange(1, 9001) ** -1.05
    drawn = words[random.choice(9000, (rows // files, 42), p=shares / shares.sum())]
    return pa.table({"line": [" ".join(line) for line in drawn]})


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


def _traffic(rows: int, files: int, number: int) -> pa.Table:
    return linear_road.rows_of(linear_road.LinearRoadRequest(rows, files), number)


APPLICATIONS = {
    "wordcount": Application("wordcount", "output", 40_000, 400_000, _lines, _words, unit="words"),
    "fraud": Application(
        "fraud", "alerts", 1 << 20, 8 << 20, lambda r, f, n: fraud.rows_of(fraud.FraudRequest(r, f), n), _alerts
    ),
    "spike": Application(
        "spike", "spikes", 1 << 20, 16 << 20, lambda r, f, n: spike.rows_of(spike.SpikeRequest(r, f), n), _spikes
    ),
    "equipment": Application(
        "equipment",
        "delays_out",
        1 << 20,
        8 << 20,
        lambda r, f, n: equipment.rows_of(equipment.EquipmentRequest(r, f), n),
        _delays,
        ("machines=true",),
    ),
    "routing": Application("linear_road_routing", "notifications", 1 << 19, 4 << 20, _traffic, _notifications),
    "linear_road": Application("linear_road", "tolls_out", 1 << 18, 1 << 21, _traffic, _tolls),
    "pipeline": Application("pipeline", "end", 10_000_000, 100_000_000, settings=("splits=1",)),
    "producer_consumer": Application("producer_consumer", "consumer", 20_000_000, 400_000_000, settings=("splits=1",)),
}


def make_input(folder: Path, application: Application, rows: int) -> int:
    """Write the input in files of a million rows at most; return the rows that the sink must have."""
    assert application.rows is not None, "the others make their own rows"
    files = max(2, rows >> 20)
    folder.mkdir()
    found = 0
    for number in range(files):
        table = application.rows(rows, files, number)
        pq.write_table(table, folder / f"part-{number:03}.parquet", row_group_size=1 << 16)
        found += application.count(table)
    return found


def run(folder: Path, application: Application, rows: int) -> dict[str, Any]:
    """Run once. Returns CPU seconds of all processes, wall seconds, and rows at the sink and those expected."""
    place, source = Path(tempfile.mkdtemp(dir=folder)), folder / f"{application.example}-{rows}"
    expected, parameters = rows, [*application.settings, f"output={place / 'out'}"]
    if application.rows is None:
        parameters = [*application.settings, f"rows={rows}"]
    else:
        note = folder / f"{source.name}.expected"
        if not note.exists():
            note.write_text(str(make_input(source, application, rows)))
        expected = int(note.read_text())
        parameters.append(f"input={source}")
    command = [sys.executable, "-m", "penstock.cli", "run", str(EXAMPLES / f"{application.example}.yaml")]
    command += ["--workers", "1", "--json", "--dir", str(place / "state")]
    command += [word for each in parameters for word in ("--set", f"job.parameters.{each}")]
    before, begun = _cpu_s(), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    cpu_s, wall_s = _cpu_s() - before, time.monotonic() - begun
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    steps = json.loads(done.stdout.splitlines()[-1])["steps"]
    found = next(step["rows_in"] for step in steps if step["name"] == application.sink)
    return {"cpu_s": cpu_s, "wall_s": wall_s, "at_sink": found, "expected": expected}


def _cpu_s() -> float:
    """Return the CPU seconds of all processes below this one that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def measure(folder: Path, name: str, turns: int, scale: float) -> list[Record]:
    """Run with few rows and with many in turn, and compare."""
    application = APPLICATIONS[name]
    few, many = (int(rows * scale) for rows in (application.few, application.many))
    found = []
    run(folder, application, few)  # kernels that are not in the cache are built now
    for turn in range(turns):
        small, large = (run(folder, application, rows) for rows in (few, many))
        ns = (large["cpu_s"] - small["cpu_s"]) / (many - few) * 1e9
        at_sink = (large["at_sink"] - small["at_sink"]) / (many - few)
        results = {
            "cpu_ns_per_row": round(ns, 1),
            "rows_per_core_s": round(1e9 / ns),
            "sink_rows_per_core_s": round(at_sink * 1e9 / ns),
            "wall_rows_per_s": round((many - few) / (large["wall_s"] - small["wall_s"])),
        }
        wrong = [f"{one['at_sink']} rows, not {one['expected']}" for one in (small, large) if not _is_exact(one)]
        cell = {"name": name, "few": few, "many": many, "unit": application.unit}
        print(f"   {name:18} {results}  exact: {not wrong}", flush=True)
        found.append(
            {"name": name, "turn": turn, "scenario": cell, "exact": not wrong, "wrong": wrong, "results": results}
        )
    return found


def _is_exact(one: dict[str, Any]) -> bool:
    return bool(one["at_sink"] == one["expected"])


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
            told = measure(Path(folder), name, options.turns, options.scale)
            print(f"   {name:18} median {median(r['results']['cpu_ns_per_row'] for r in told)} ns of CPU a row")
            runs += told
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
