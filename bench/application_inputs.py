"""The published applications, as they are measured: the example, its input, and the rows that its sink must have."""

import itertools
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from penstock_spark import equipment, fraud, linear_road, spike

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
FILE_ROWS = 1 << 20
LINES = 100_000  # of a file
WAYS = 64  # expressways, of which the first ones are written
Count = Callable[[pa.Table], int]


@dataclass(frozen=True, slots=True)
class Application:
    """An example, its sink, its rows, and its input: calls of ``table`` with the number of the file.

    ``count`` says how many rows of the sink a table gives. Without a table the example makes its rows, ``rows`` in
    all ``splits``.
    """

    example: str
    sink: str
    rows: int
    table: Callable[[int], pa.Table] | None = None
    count: Count = len
    settings: tuple[str, ...] = ()
    form: str = "parquet"  # of the files; or csv
    splits: int = 1
    workers: int | None = None  # None: as the command line says


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
def _lines_of_readings() -> pa.Table:
    """Return readings with the columns that a line of the published input has beside them."""
    table = _readings()
    count = len(table)
    table = table.append_column("epoch", pa.array(np.arange(count) // 54))
    for name, value in (("humidity", 35.5132), ("light", 320.65), ("voltage", 2.68716)):
        table = table.append_column(name, pa.array(np.full(count, value)))
    return table


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


def tolls(table: pa.Table) -> int:
    """Return how many crossings of segments are answered, also with a toll of zero."""
    r = _reports(table)
    same = np.all([r[name][1:] == r[name][:-1] for name in ("VID", "Dir", "Seg")], axis=0)
    return int(np.count_nonzero(~np.concatenate(([False], same)) & (r["Lane"] != linear_road.EXIT_LANE)))


APPLICATIONS = {
    "wordcount": Application("wordcount", "output", 32 * LINES, _lines, _words),
    "fraud": Application(
        "fraud", "alerts", 64 * FILE_ROWS, lambda n: _of_others(_transactions(), "entity_id", n), _alerts
    ),
    "spike": Application("spike", "spikes", 96 * FILE_ROWS, lambda n: _of_others(_readings(), "mote", n), _spikes),
    "spike_text": Application(
        "spike",
        "spikes",
        24 * FILE_ROWS,
        lambda n: _of_others(_lines_of_readings(), "mote", n),
        _spikes,
        ("format=csv",),
        form="csv",
    ),
    "equipment": Application(
        "equipment",
        "delays_out",
        64 * FILE_ROWS,
        lambda n: _of_others(_machine(), "machine", n),
        _delays,
        ("machines=true",),
    ),
    "routing": Application("linear_road_routing", "notifications", 16 * FILE_ROWS, _traffic, _notifications),
    "linear_road": Application("linear_road", "tolls_out", 6 * FILE_ROWS, _traffic, tolls),
    "pipeline": Application("pipeline", "end", 1_000_000_000),
    "pipeline_chained": Application("pipeline", "end", 1_000_000_000, splits=2, workers=2),
    "pipeline_across": Application(
        "pipeline", "end", 200_000_000, settings=("between=round_robin",), splits=2, workers=2
    ),
    "producer_consumer": Application("producer_consumer", "consumer", 3_000_000_000),
    "producer_consumer_across": Application("producer_consumer", "consumer", 1_000_000_000, splits=2, workers=2),
}


def make_input(folder: Path, application: Application, rows: int) -> None:
    """Write files until there are so many rows, and note how many there are and how many the sink must have."""
    assert application.table is not None, "the others make their own rows"
    folder.mkdir()
    written, expected = 0, 0
    for number in itertools.count():
        table = application.table(number)
        target = folder / f"part-{number:03}.{application.form}"
        if application.form == "csv":
            pa.csv.write_csv(table, target)
        else:
            pq.write_table(table, target, row_group_size=1 << 16)
        written, expected = written + len(table), expected + application.count(table)
        if written >= rows:
            break
    (folder / "_expected.json").write_text(json.dumps([written, expected]))
