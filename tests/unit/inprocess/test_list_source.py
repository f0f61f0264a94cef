"""A list as a source: what is read, where it stands, and what does not fit."""

import datetime as dt
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.contract.manifest import SplitState
from penstock.inprocess.list_source import ABORT, EOF, PAUSE, Item, ListReader, ListSource

EARLY = dt.datetime(2026, 1, 1, 0, 0, 0, 5)  # noqa: DTZ001  columns without a zone take these
TWO = pa.record_batch({"n": pa.array([3, 4])})


def rows(*numbers: int) -> list[Item]:
    return [{"n": number} for number in numbers]


def opened(source: ListSource, offset: int = 0, partition: int = 0) -> ListReader:
    first = source.splits()[partition]
    return source.open(SplitState(first.split, first.spec, offset))


def read(reader: ListReader, most: int = 100) -> list[int]:
    """Read until nothing comes."""
    found: list[int] = []
    while (given := reader.read(most)) is not None:
        assert given.offset + given.batch.num_rows == reader.state().offset
        found += given.batch.column("n").to_pylist()
    return found


def test_rows_and_batches_come_in_order_from_any_offset() -> None:
    source = ListSource([*rows(1, 2), TWO, *rows(5)])
    for most in (1, 2, 100):
        assert read(opened(source), most) == [1, 2, 3, 4, 5]
        assert read(opened(source, 3), most) == [4, 5]
    assert opened(source, 5).state().finished


def test_a_partition_ends_at_an_eof_and_others_go_on() -> None:
    source = ListSource([*rows(1), EOF, *rows(2)], rows(7))
    assert read(first := opened(source)) == [1]
    assert first.state().finished
    assert read(opened(source, partition=1)) == [7]


@pytest.mark.parametrize("marker", [ABORT, PAUSE])
def test_a_marker_stops_once_in_a_run(marker: Item) -> None:
    source = ListSource([*rows(1), marker, *rows(2)])
    reader = opened(source)
    assert read(reader) == [1]
    assert not reader.state().finished
    assert source.stopped_at() is marker
    source.resume()
    assert source.stopped_at() is None
    assert read(reader) == [2]
    assert read(opened(source)) == [1, 2]  # after a death
    source.begin()
    assert read(opened(source)) == [1]


def test_an_abort_comes_before_a_pause_of_another_partition() -> None:
    source = ListSource([PAUSE, *rows(1)], [ABORT, *rows(2)])
    for partition in (0, 1):
        opened(source, partition=partition)
    assert source.stopped_at() is ABORT


def test_rows_may_be_pushed_to_a_list_without_end_only() -> None:
    endless = ListSource(columns={"n": "int64"}, ends=False)
    assert not endless.bounded
    reader = opened(endless)
    assert read(reader) == []
    endless.push(rows(1))
    assert read(reader) == [1]
    assert not reader.state().finished
    ended = ListSource(rows(1))
    read(last := opened(ended))
    assert last.state().finished
    with pytest.raises(ConfigError, match="has been read to its end"):
        ended.push(rows(2))


def test_columns_are_found_in_all_rows_or_given() -> None:
    found = ListSource([{"a": 1}, {"b": "x"}]).schema
    assert found.names == ["a", "b"]
    assert [str(t) for t in found.types] == ["int64", "string"]
    assert str(ListSource(rows(1), columns={"n": "int16"}).schema.field("n").type) == "int16"


def test_what_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="cannot be told from its rows"):
        ListSource()
    with pytest.raises(ConfigError, match="cannot be told from its rows"):
        ListSource([{"n": None}])
    with pytest.raises(ConfigError, match="did you mean 'word'"):
        ListSource([{"wrod": "a"}], columns={"word": "string"})
    with pytest.raises(ConfigError, match="row 0 does not fit the columns"):
        ListSource([{"n": "text"}], columns={"n": "int64"})
    with pytest.raises(ConfigError, match="no row"):
        ListSource([*rows(1), 7])
    with pytest.raises(ConfigError, match="a batch has the columns"):
        ListSource([TWO, pa.record_batch({"m": pa.array([1])})])


@ps.record
class Reading:
    at: ps.Time
    n: int


CHANGED: list[tuple[str, Any, str]] = [
    ("int64", 1.7, "hold 1.7 as int64: it is no whole number"),
    ("float", 1e300, r"hold 1e\+300 as float: it is too large"),
    ("double", 2**53 + 1, "as double: it has more digits"),
    ("timestamp[s]", EARLY, r"as timestamp\[s\]: it is finer than s"),
    ("timestamp[us]", EARLY.replace(tzinfo=dt.UTC), "its time zone would be lost"),
    ("duration[s]", dt.timedelta(microseconds=5), r"as duration\[s\]: it is finer than s"),
    ("date32[day]", EARLY, "it is no date but datetime"),
    ("struct<a: int64>", {"a": 1, "b": 2}, "its fields are not a"),
    ("list<item: int64>", [1.7], "it is no whole number"),
]


@pytest.mark.parametrize(("kind", "value", "why"), CHANGED, ids=str)
def test_a_value_that_would_change_is_refused_with_row_column_and_value(kind: str, value: Any, why: str) -> None:
    given = [{"n": 1, "x": None}, PAUSE, {"n": 2}, {"n": 3, "x": value}]
    with pytest.raises(ConfigError, match=rf"row 2 does not fit the columns of the list: column 'x' cannot .*{why}"):
        ListSource(given, columns={"n": "int64", "x": kind})


def test_what_a_column_holds_exactly_is_taken_as_a_function_gives_it() -> None:
    columns = {"n": "int64", "d": "decimal128(5, 2)", "m": "map<string, int64>"}
    source = ListSource([{"n": 2.0, "d": 3, "m": {"a": 1}}, {"m": None}], columns=columns)
    batch = opened(source).read(10).batch  # type: ignore[union-attr]
    assert batch.to_pylist() == [
        {"n": 2, "d": Decimal("3.00"), "m": [("a", 1)]},
        {"n": None, "d": None, "m": None},
    ]


def test_a_whole_number_is_a_time_in_the_unit_of_its_column() -> None:
    columns = {"at": "timestamp[ms, tz=UTC]", "day": "date32[day]"}
    source = ListSource([{"at": 5}, {"at": dt.datetime(1970, 1, 1, tzinfo=dt.UTC), "day": 2}, {}], columns=columns)
    batch = opened(source).read(10).batch  # type: ignore[union-attr]
    assert batch.column("at").cast(pa.int64()).to_pylist() == [5, 0, None]
    assert batch.column("day").to_pylist() == [None, dt.date(1970, 1, 3), None]


def test_the_time_of_a_record_is_in_microseconds_whatever_the_column_has() -> None:
    for kind in ("timestamp[us]", "timestamp[ms]", "timestamp[ns, tz=Europe/Berlin]", "int64"):
        source = ListSource([Reading(3000, 1), {"n": 7}, Reading(5000, 2)], columns={"at": kind, "n": "int8"})
        pieces = [given.batch for given in iter(partial(opened(source).read, 10), None)]
        times = pa.chunked_array([piece.column("at") for piece in pieces])
        us = times if kind == "int64" else times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())
        assert us.to_pylist() == [3000, None, 5000]
    with pytest.raises(ConfigError, match=r"row 1 does not fit .*column 'at' cannot hold .* it is finer than ms"):
        ListSource([Reading(3000, 1), Reading(5, 2)], columns={"at": "timestamp[ms]", "n": "int8"})
    with pytest.raises(ConfigError, match=r"row 1 does not fit .*column 'n' cannot hold 200 as int8"):
        ListSource([Reading(3000, 1), Reading(0, 200)], columns={"at": "timestamp[ms]", "n": "int8"})
