"""The Delta Lake source: the rows of a snapshot, then those that versions add, each once from every position."""

import datetime
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from penstock.base.errors import ConfigError, StateError
from penstock.connectors.delta.delta_source import DeltaSource
from penstock.connectors.missing import NotThere
from penstock.connectors.tables.table_source import TableLane
from penstock.contract.columns import Column
from penstock.contract.delta_options import DeltaInput
from penstock.contract.event_time import EventTime
from penstock.contract.manifest import SplitState
from penstock.testing import connectors as kit
from tests.support import tables
from tests.support.delta import Table
from tests.support.tables import numbers, states, take

NOON = datetime.datetime(2026, 11, 27, 12, tzinfo=datetime.UTC)
FOLLOW_S = 0.1


def rows(numbers: Iterable[int]) -> list[dict[str, object]]:
    """Return rows, most of which are in folders with odd names."""
    return [
        {
            "word": "a/b=c é%" if n % 3 else None,
            "day": NOON.date(),
            "number": n,
            "at": NOON + datetime.timedelta(seconds=n),
        }
        for n in numbers
    ]


def write(folder: Path, *numbers: int, **more: Any) -> None:
    """Add rows as a new version."""
    types = [("word", pa.string()), ("day", pa.date32()), ("number", pa.int64()), ("at", pa.timestamp("us", "UTC"))]
    data = pa.Table.from_pylist(rows(numbers), pa.schema(types))
    write_deltalake(folder, data, mode="append", partition_by=["word", "day"], **more)


def source(folder: Path, follow: float | None = FOLLOW_S, **more: Any) -> DeltaSource:
    return DeltaSource(DeltaInput(str(folder), follow=follow, **more), ())


def opened(folder: Path, given: Iterable[SplitState] | None = None, **more: Any) -> list[TableLane]:
    """Open all lanes as a new process does: from the start, or from states."""
    return tables.opened(source(folder, **more), given)


def test_it_keeps_the_rules_of_a_source_with_an_end_and_without(tmp_path: Path) -> None:
    for first in range(3):
        write(tmp_path, *range(10 * first, 10 * first + 10))
    assert kit.check_source(lambda: source(tmp_path, None)) == 30
    later = iter(range(100, 1000))
    assert kit.check_source(lambda: source(tmp_path), lambda: write(tmp_path, next(later), next(later))) > 30


def test_values_are_those_of_the_table_in_a_snapshot_and_in_later_versions(tmp_path: Path) -> None:
    write(tmp_path, *range(4))
    readers = opened(tmp_path)
    assert take(readers) == rows(range(4))
    write(tmp_path, *range(4, 8))
    assert take(opened(tmp_path, states(readers))) == rows(range(4, 8))


@pytest.mark.parametrize("kind", ["timestamp", "date", "string", "long", "boolean"])
def test_an_empty_text_of_a_partition_is_a_null_of_every_type(tmp_path: Path, kind: str) -> None:
    table = Table.in_folder(tmp_path / "table").create({"number": "long", "part": kind}, ["part"])
    readers = opened(tmp_path / "table")
    assert take(readers) == []
    table.add_rows(pa.table({"number": [1]}), {"part": ""})
    assert take(opened(tmp_path / "table", states(readers))) == [{"number": 1, "part": None}]


def test_versions_are_found_while_it_reads_and_files_that_are_only_rewritten_are_not_read_again(tmp_path: Path) -> None:
    write(tmp_path, 1)
    readers = opened(tmp_path, follow=1e-9)
    assert numbers(readers) == [1]
    write(tmp_path, 2)
    DeltaTable(tmp_path).optimize.compact()
    write(tmp_path, 4, 5)
    assert numbers(readers) == [2, 4, 5]
    assert {reader.pending() for reader in readers} == {(0, None)}
    assert numbers(opened(tmp_path, states(readers))) == []


def test_what_is_left_is_counted(tmp_path: Path) -> None:
    write(tmp_path, *range(1, 30, 3), *range(2, 30, 3))
    (reader,) = (r for r in opened(tmp_path, follow=None) if not r.state().finished)
    assert reader.pending() == (None, None), "not looked yet"
    seen = [reader.pending() for _ in range(3) if reader.read(7)]
    assert (seen, reader.state().finished) == ([(13, None), (6, None), (0, None)], True)


def test_the_event_time_of_a_lane_is_in_its_state(tmp_path: Path) -> None:
    write(tmp_path, 1)
    found = DeltaSource(DeltaInput(str(tmp_path), follow=FOLLOW_S), (), EventTime("at", 0))
    readers = [found.open(state) for state in found.splits()]
    take(readers)
    reached = {state.max_ts for state in states(readers)} - {None}
    assert reached == {int(NOON.timestamp() + 1) * 1_000_000}
    assert {reader.state().max_ts for reader in map(found.open, states(readers))} - {None} == reached


def test_a_version_that_removes_rows_is_an_error_unless_it_is_to_be_left_out(tmp_path: Path) -> None:
    write(tmp_path, 1, 2)
    readers = opened(tmp_path)
    assert numbers(readers) == [1, 2]
    write(tmp_path, 4)
    DeltaTable(tmp_path).delete("number = 1")
    write(tmp_path, 5)
    said = r"version 2: it removes rows \(operation DELETE\).*: give skipChangeCommits"
    with pytest.raises(StateError, match=said):
        take(opened(tmp_path, states(readers)))
    assert numbers(opened(tmp_path, states(readers), skip_change_commits=True)) == [4, 5]
    assert numbers(opened(tmp_path)) == [2, 4, 5], "a snapshot has what is left"


def test_a_column_that_is_added_is_null_before_and_read_after_it(tmp_path: Path) -> None:
    write(tmp_path, 1)
    readers = opened(tmp_path)
    data = pa.table({"word": ["x"], "day": [NOON.date()], "number": [2], "more": ["new"]})
    write_deltalake(tmp_path, data, mode="append", schema_mode="merge")
    assert numbers(opened(tmp_path, states(readers))) == [1, 2]
    (old, new) = take(opened(tmp_path))
    assert (old["more"], new["more"], new["at"]) == (None, "new", None)
    write_deltalake(tmp_path, data.append_column("most", [["x"]]), mode="append", schema_mode="merge")
    assert numbers(opened(tmp_path, states(readers))) == [1, 2, 2], "the first new column came without the second one"


def optimized_and_vacuumed(folder: Path) -> None:
    write(folder, 2)
    table = DeltaTable(folder)
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def without_old_versions(folder: Path) -> None:
    write(folder, 2)
    write(folder, 4)
    DeltaTable(folder).create_checkpoint()
    for version in range(2):
        (folder / "_delta_log" / f"{version:020d}.json").unlink()


def made_anew(folder: Path) -> None:
    shutil.rmtree(folder)
    write(folder, 2)


def with_another_column(folder: Path) -> None:
    table = Table.of_folder(folder)
    (about,) = (action["metaData"] for action in table.versions()[0] if "metaData" in action)
    table.add({"metaData": {**about, "schemaString": about["schemaString"].replace('"long"', '"string"')}})


def with_feature(folder: Path) -> None:
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}
    Table.of_folder(folder).add({"protocol": {**protocol, "writerFeatures": ["deletionVectors"]}})


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        (optimized_and_vacuumed, r"of version \d is gone: VACUUM has removed it"),
        (made_anew, "is not the one that the job has read through version|was made anew"),
        (with_feature, r"have to know deletionVectors, .*: run REORG TABLE"),
    ],
)
def test_what_happens_to_a_table_before_it_is_read_is_told_with_a_remedy(
    tmp_path: Path, happens: Callable[[Path], None], said: str
) -> None:
    write(tmp_path / "t", 1)
    places = states(opened(tmp_path / "t"))
    happens(tmp_path / "t")
    with pytest.raises((StateError, ConfigError), match=f"delta source: table .*{said}"):
        take(opened(tmp_path / "t", places))


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        (without_old_versions, "version 1 is gone from its log: .*delta.logRetentionDuration"),
        (with_another_column, "version 1: it changes column 'number', which the job reads as int64: now it is string"),
        (made_anew, "was made anew while the job reads it"),
        (with_feature, r"version 1: its readers have to know deletionVectors"),
    ],
)
def test_what_happens_to_a_table_while_it_is_read_is_told_with_a_remedy(
    tmp_path: Path, happens: Callable[[Path], None], said: str
) -> None:
    write(tmp_path / "t", 1)
    readers = opened(tmp_path / "t", follow=1e-9)
    assert numbers(readers) == [1]
    happens(tmp_path / "t")
    with pytest.raises(StateError, match=f"delta source: table .*{said}"):
        take(readers)


def mapped(folder: Path) -> None:
    Table.in_folder(folder).create({"number": "long"}, **{"delta.columnMapping.mode": "name"})


def shallow(folder: Path) -> None:
    table = Table.in_folder(folder).create({"number": "long"})
    about = {"partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}
    table.add({"add": {"path": "file:///elsewhere/a.parquet", **about}})


@pytest.mark.parametrize(
    ("make", "columns", "said"),
    [
        (Path.mkdir, (), "there is no table: correct `table`, or make the table first"),
        (mapped, (), "have to know columnMapping, .*: run ALTER TABLE"),
        (shallow, (), r"outside of the table \(a shallow clone\)"),
        (lambda folder: write(folder, 1), (Column("numbr", "int64"),), "unknown column 'numbr'.*number"),
        (
            lambda folder: write(folder, 1),
            (Column("number", "string"),),
            "column 'number' is int64, declared is string",
        ),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_with_a_remedy(
    tmp_path: Path, make: Callable[[Path], None], columns: tuple[Column, ...], said: str
) -> None:
    make(tmp_path / "t")

    def read() -> None:
        found = DeltaSource(DeltaInput(str(tmp_path / "t")), columns)
        take(found.open(state) for state in found.splits())

    with pytest.raises((ConfigError, StateError, NotThere), match=said):
        read()


def test_follow_is_not_taken_up_by_a_lane_that_has_ended_nor_given_up_behind_the_snapshot(tmp_path: Path) -> None:
    write(tmp_path, 1)
    ended = states(opened(tmp_path, follow=None))
    assert {state.finished for state in ended} == {True, False}, "lanes without a file have ended"
    write(tmp_path, *range(2, 40))
    with pytest.raises(
        StateError, match=r"delta source: table .*lane-\d\d to its end without `follow`.*: take `follow`"
    ):
        take(opened(tmp_path, ended))
    readers = opened(tmp_path, ended, follow=None)
    assert numbers(readers) == [1]
    followed = opened(tmp_path)
    write(tmp_path, 40, 41)
    places = states(followed)
    assert len(numbers(opened(tmp_path, places, follow=None))) == 39, "it ends behind the snapshot"
    take(followed)
    write(tmp_path, 42)
    with pytest.raises(StateError, match=r"delta source: table .*versions behind 1, with `follow`.*: give `follow`"):
        opened(tmp_path, states(followed), follow=None)


def test_bytes_in_the_name_of_a_partition_are_refused_and_may_be_left_out(tmp_path: Path) -> None:
    data = pa.table({"number": pa.array([1, 2], pa.int64()), "key": [b"a", b"\xff"]})
    write_deltalake(tmp_path, data, partition_by=["key"])
    with pytest.raises(ConfigError, match=r"partition column 'key' is binary, .*: leave it out"):
        source(tmp_path)
    columns = (Column("number", "int64"),)
    found = DeltaSource(DeltaInput(str(tmp_path)), columns)
    assert numbers(found.open(state) for state in found.splits()) == [1, 2]


def test_a_checkpoint_that_says_nonsense_is_named(tmp_path: Path) -> None:
    write(tmp_path, 1)
    (first, *_) = source(tmp_path).splits()
    with pytest.raises(StateError, match="a checkpoint describes a lane of a table as"):
        source(tmp_path).open(SplitState(first.split, "[]", 0))
