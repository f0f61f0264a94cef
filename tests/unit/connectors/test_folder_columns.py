"""Folders year=2026/month=11 become columns, of files on a disk and of objects; each fault names file and remedy."""

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

from penstock.base.errors import ConfigError, PenstockError, StateError
from penstock.connectors.input_files import look_at
from penstock.connectors.open_connectors import ConnectorInspector, open_source
from penstock.connectors.s3 import object_folder
from penstock.contract.columns import Column
from penstock.contract.event_time import EventTime
from penstock.contract.graph import Connector, Source
from penstock.ports import Source as SourcePort

BY = "year,month"
DECLARED = (Column("n", "int64"), Column("month", "int8"), Column("year", "string"))
FILES = {
    "year=2026/month=11/a": [1, 2],
    "year=2026/month=12/b": [3],
    "year=a%2Fb/month=__HIVE_DEFAULT_PARTITION__/c": [4],
}
ROWS = [
    {"n": 1, "month": 11, "year": "2026"},
    {"n": 2, "month": 11, "year": "2026"},
    {"n": 3, "month": 12, "year": "2026"},
    {"n": 4, "month": None, "year": "a/b"},
]


def encoded(kind: str, rows: list[dict[str, Any]]) -> bytes:
    """Return a file of rows."""
    if kind == "json":
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    if kind == "csv":
        return "\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]).encode()
    out = BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


class Place:
    """Files of one kind, on a disk or in a store of objects."""

    def __init__(self, kind: str, root: Path | MemoryStore) -> None:
        self.kind = kind
        self.root = root

    def write(self, name: str, rows: list[dict[str, Any]]) -> str:
        """Write a file, and return its name."""
        name += {"json": ".jsonl", "csv": ".csv", "parquet": ".parquet"}[self.kind]
        if isinstance(self.root, MemoryStore):
            self.root.put(name, encoded(self.kind, rows))
        else:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_bytes(encoded(self.kind, rows))
        return name

    def connector(self, **more: Any) -> Connector:
        """Return the options of the source."""
        given = {"partition_by": BY, **more}
        if isinstance(self.root, MemoryStore):
            return Connector("s3", {"url": "s3://b/in", "format": self.kind, **given})
        return Connector(self.kind, {"path": str(self.root), **given})


@pytest.fixture(params=["disk", "objects"])
def place_of(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Place]:
    if request.param == "disk":
        return lambda kind: Place(kind, tmp_path)
    store = MemoryStore()
    monkeypatch.setattr(object_folder, "_connect", lambda _: store)
    return lambda kind: Place(kind, store)


def filled(place: Place) -> Place:
    """Write the files."""
    for name, numbers in FILES.items():
        place.write(name, [{"n": n} for n in numbers])
    return place


def rows_of(source: SourcePort, states: Any = None) -> list[dict[str, Any]]:
    """Read what is there, two rows at a time."""
    rows: list[dict[str, Any]] = []
    for state in states or source.splits():
        reader = source.open(state)
        while (read := reader.read(2)) is not None:
            rows += read.batch.to_pylist()
        reader.close()
    return rows


def told(place: Place, columns: Any = DECLARED, **more: Any) -> str:
    """Return what is said of the input when the job is loaded."""
    with pytest.raises(ConfigError) as caught:
        ConnectorInspector().check_files(place.connector(**more), columns)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["parquet", "json", "csv"])
def test_folders_become_columns_of_the_declared_types(kind: str, place_of: Callable[[str], Place]) -> None:
    place = filled(place_of(kind))
    ConnectorInspector().check_files(place.connector(), DECLARED)
    source = open_source(Source(place.connector(), DECLARED, None))
    assert rows_of(source) == ROWS
    first, second, _ = source.splits()
    assert second.split.startswith("year=2026/month=12/b."), "a file is known by its path"
    reader = source.open(first)
    assert reader.read(1) is not None
    assert rows_of(source, [reader.state(), second]) == ROWS[1:3], "it goes on where it was"


def test_without_declared_columns_they_are_texts_behind_those_of_parquet(place_of: Callable[[str], Place]) -> None:
    place = filled(place_of("parquet"))
    schema = ConnectorInspector().source_schema(place.connector(), ())
    assert [(f.name, str(f.type)) for f in schema] == [("n", "int64"), ("year", "string"), ("month", "string")]
    assert rows_of(open_source(Source(place.connector(), (), None)))[0] == {"n": 1, "year": "2026", "month": "11"}


def test_a_folder_may_be_the_event_time(place_of: Callable[[str], Place]) -> None:
    place = place_of("json")
    place.write("at=2026-11-27T00:00:00/a", [{"n": 1}])
    columns = (Column("n", "int64"), Column("at", "timestamp[us]"))
    source = open_source(Source(place.connector(partition_by="at"), columns, EventTime("at", 0)))
    reader = source.open(source.splits()[0])
    assert reader.read(5) is not None
    assert reader.state().max_ts == 1_795_737_600_000_000


@pytest.mark.parametrize("kind", ["parquet", "json", "csv"])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a", "it is in no folder year=VALUE (partitionBy wants year=.../month=...): move it, or correct partitionBy"),
        ("year=2026/a", "it is in no folder month=VALUE"),
        ("year=2026/11/a", "its folder '11' is no month=VALUE"),
        ("year=2026/month=/a", "its folder 'month=' is no month=VALUE"),
        ("month=11/year=2026/a", "its folder 'month=11' is no year=VALUE"),
        ("year=2026/month=11/day=3/a", "its folder 'day=3' is below year=.../month=...: name all folders"),
        ("year=2026/month=May/a", "'May', in the name of its folder, is no int8, which column 'month' is"),
        ("year=2026/month=300/a", "'300', in the name of its folder, is no int8"),
    ],
)
def test_a_folder_that_does_not_fit_is_told_with_its_file(
    place_of: Callable[[str], Place], kind: str, name: str, said: str
) -> None:
    place = place_of(kind)
    place.write("year=2026/month=11/good", [{"n": 1}])
    file = place.write(name, [{"n": 1}])
    text = told(place)
    assert said in text
    assert file in text


@pytest.mark.parametrize("kind", ["parquet", "json", "csv"])
def test_a_column_that_is_also_in_the_file_is_told(place_of: Callable[[str], Place], kind: str) -> None:
    place = filled(place_of(kind))
    file = place.write("year=2026/month=12/z", [{"n": 1, "month": 3}])
    text = told(place)
    assert "has a column 'month', which is also in the name of its folder: take it out of partitionBy" in text
    assert file in text


def test_options_that_do_not_fit_are_told(tmp_path: Path) -> None:
    place = filled(Place("json", tmp_path))
    assert "'year' is named twice" in told(place, partition_by="year,year")
    assert "all declared columns are folders" in told(place, DECLARED[1:])
    lists = (DECLARED[0], Column("year", "list<item: int64>"))
    assert "'year' is declared as list<item: int64>, and no folder's name has such values" in told(place, lists)
    file = place.write("year=2026/month=11/only", [{"n": 1}])
    assert "is a file: name the folder in which the folders year=..." in told(place, path=str(tmp_path / file))


def test_hidden_folders_and_other_files_are_passed_over(tmp_path: Path) -> None:
    place = filled(Place("json", tmp_path))
    place.write("_temporary/0/d", [{"n": 9}])
    place.write("year=2026/.hidden/d", [{"n": 9}])
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "year=2026" / "notes.txt").touch()
    assert rows_of(open_source(Source(place.connector(), DECLARED, None))) == ROWS
    place.write("d", [{"n": 9}])
    seen = look_at(tmp_path, ("year=2026/month=11/a.jsonl",), "json", ("year", "month"))
    assert (seen.files, seen.unread, seen.unread_names) == (
        1,
        2,
        ("year=2026/month=12/b.jsonl", "year=a%2Fb/month=__HIVE_DEFAULT_PARTITION__/c.jsonl"),
    )
    assert "d.jsonl (not in the folders of partitionBy)" in seen.passed_names


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_a_followed_folder_gets_new_folders(place_of: Callable[[str], Place], kind: str) -> None:
    place = filled(place_of(kind))
    connector = place.connector(follow=0.1)
    ConnectorInspector().check_files(connector, DECLARED)
    source = open_source(Source(connector, DECLARED, None))
    lanes = source.splits()
    assert sorted(rows_of(source, lanes), key=lambda row: row["n"]) == ROWS
    place.write("year=2027/month=1/d", [{"n": 5}])
    assert {"n": 5, "month": 1, "year": "2027"} in rows_of(source, lanes)
    place.write("year=2027/month=May/e", [{"n": 6}])
    with pytest.raises(StateError, match="'May', in the name of its folder, is no int8"):
        rows_of(source, lanes)


def test_a_file_in_the_wrong_folder_of_a_followed_one_stops_the_job(place_of: Callable[[str], Place]) -> None:
    place = filled(place_of("json"))
    source = open_source(Source(place.connector(follow=0.1), DECLARED, None))
    lanes = source.splits()
    place.write("year=2027/f", [{"n": 7}])
    with pytest.raises(PenstockError, match="it is in no folder month=VALUE"):
        rows_of(source, lanes)
