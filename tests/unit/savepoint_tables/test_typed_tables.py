"""The state of a function with types as tables of Parquet: all kinds of fields, there and back."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.base.errors import ConfigError, StateError
from penstock.connectors.open_connectors import ConnectorInspector
from penstock.graph import load_job
from penstock.graph.compiled import CompiledJob
from penstock.savepoint_tables.from_parquet import build_savepoint
from penstock.savepoint_tables.to_parquet import StoredState, export_state

SOURCE = """
import penstock as ps


@ps.record
class Row:
    who: str


@ps.record
class Place:
    name: str
    floor: int | None = None


@ps.state
class Kept:
    total: int = 7
    kind: ps.Enum["NEW", "OLD"] = "OLD"
    home: Place | None = None
    last: ps.Ring[ps.int8, 3]
    places: ps.List[Place] = ps.field(max=2)
    counts: ps.Map[str, float]
    seen: ps.Set[int]
    idle: ps.Timer


def keep(r: Row, s: Kept, out: ps.Out[Row]): ...


def ignore(t: ps.Time, key, s: Kept, out: ps.Out[Row]): ...


def job(params):
    job = ps.Job()
    columns = {"who": "string", "at": "timestamp[us]"}
    rows = job.source("rows", ps.parquet("in"), columns=columns, event_time="at").key_by("who")
    rows.process("keep", keep, on_timer={"idle": ignore}).sink("out", ps.discard())
    return job
"""
SCHEMA = pa.schema(
    {
        "who": pa.string(),
        "total": pa.int64(),
        "kind": pa.string(),
        "home": pa.struct({"name": pa.string(), "floor": pa.int64()}),
        "last": pa.list_(pa.int8()),
        "places": pa.list_(pa.struct({"name": pa.string(), "floor": pa.int64()})),
        "counts": pa.map_(pa.string(), pa.float64()),
        "seen": pa.list_(pa.int64()),
        "idle": pa.timestamp("us"),
    }
)
PLACE = {"name": "a", "floor": None}


def row(i: int) -> dict[str, Any]:
    return {
        "who": f"w{i}",
        "total": i,
        "kind": "NEW" if i % 2 else "OLD",
        "home": None if i % 3 else {"name": f"h{i}", "floor": i},
        "last": list(range(i % 4)),
        "places": [PLACE] * (i % 3),
        "counts": [(f"k{n}", n / 4) for n in range(i % 5)],
        "seen": list(range(i % 3)),
        "idle": None if i % 4 else i,
    }


@pytest.fixture
def job(tmp_path: Path) -> CompiledJob:
    (tmp_path / "typed_tables.py").write_text(SOURCE)
    return load_job(tmp_path / "typed_tables.py", ConnectorInspector())


def build(job: CompiledJob, folder: Path, rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> pa.Table:
    (folder / "table").mkdir()
    table = pa.Table.from_pylist(rows, schema)
    pq.write_table(table, folder / "table" / "part-0.parquet")
    build_savepoint(job, {"keep": folder / "table"}, folder / "savepoint")
    return table


def test_every_kind_of_field_goes_there_and_back(job: CompiledJob, tmp_path: Path) -> None:
    given = build(job, tmp_path, [row(i) for i in range(2_000)])
    (exported,) = export_state(job, StoredState.of_savepoint(tmp_path / "savepoint"), tmp_path / "tables")
    assert exported.rows == 2_000
    found = pq.read_table(tmp_path / "tables" / "keep").drop_columns(["key_group"]).sort_by("who")
    assert found.equals(given.sort_by("who"))


def test_a_ring_keeps_the_newest_values_of_a_longer_list(job: CompiledJob, tmp_path: Path) -> None:
    build(job, tmp_path, [{**row(1), "last": [1, 2, 3, 4, 5]}])
    export_state(job, StoredState.of_savepoint(tmp_path / "savepoint"), tmp_path / "tables")
    assert pq.read_table(tmp_path / "tables" / "keep")["last"].to_pylist() == [[3, 4, 5]]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("kind", "ODD", "column 'kind': 'ODD' is none of the texts of the Enum"),
        ("total", None, "column 'total': the value is null, and int64 allows no None"),
        ("places", [{"name": None, "floor": 1}], "column 'places': the value is null, and string allows no None"),
        ("places", [PLACE] * 3, "Kept.places has 2 entries, and no room for another one"),
        ("seen", None, r"column 'seen': the value is null, and list\[int64\] allows no None"),
    ],
)
def test_values_that_a_field_cannot_keep_are_refused(
    job: CompiledJob, tmp_path: Path, name: str, value: Any, text: str
) -> None:
    with pytest.raises(StateError, match=text):
        build(job, tmp_path, [{**row(1), name: value}])


def test_a_column_of_another_type_is_refused(job: CompiledJob, tmp_path: Path) -> None:
    other = SCHEMA.set(SCHEMA.get_field_index("counts"), pa.field("counts", pa.list_(pa.int64())))
    with pytest.raises(StateError, match=r"column 'counts' has type list<.*>, and the field is Map\[string, double\]"):
        build(job, tmp_path, [{**row(1), "counts": [1]}], other)


def test_a_missing_column_is_named(job: CompiledJob, tmp_path: Path) -> None:
    less = pa.schema([field for field in SCHEMA if field.name != "idle"])
    with pytest.raises(ConfigError, match="missing: idle"):
        build(job, tmp_path, [{k: v for k, v in row(1).items() if k != "idle"}], less)
