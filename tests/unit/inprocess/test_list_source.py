"""A list as a source: what is read, where it stands, and what does not fit."""

import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError
from penstock.contract.manifest import SplitState
from penstock.inprocess.list_source import ABORT, EOF, PAUSE, Item, ListReader, ListSource

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
    with pytest.raises(ConfigError, match="do not fit the columns"):
        ListSource([{"n": "text"}], columns={"n": "int64"})
    with pytest.raises(ConfigError, match="no row"):
        ListSource([*rows(1), 7])
    with pytest.raises(ConfigError, match="a batch has the columns"):
        ListSource([TWO, pa.record_batch({"m": pa.array([1])})])
