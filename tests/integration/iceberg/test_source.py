"""The Iceberg source: the rows of a snapshot, then those that snapshots add, each once from every position."""

import datetime
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.types import DateType, ListType, LongType, StringType, TimestamptzType, UUIDType

from penstock.base.errors import ConfigError, StateError
from penstock.connectors.iceberg.iceberg_source import IcebergSource
from penstock.connectors.missing import NotThere
from penstock.connectors.tables.table_source import TableLane
from penstock.contract.columns import Column
from penstock.contract.event_time import EventTime
from penstock.contract.iceberg_options import IcebergInput
from penstock.contract.manifest import SplitState
from penstock.testing import connectors as kit
from tests.support import tables
from tests.support.iceberg import NAME, IcebergTable, expire_all_but_the_newest, local_catalog
from tests.support.tables import numbers, states, take

NOON = datetime.datetime(2026, 11, 27, 12, tzinfo=datetime.UTC)
COLUMNS = {"word": StringType(), "day": DateType(), "number": LongType(), "at": TimestamptzType()}
FOLLOW_S = 0.1


def rows(given: Iterable[int]) -> list[dict[str, object]]:
    """Return rows, most of which are in partitions with odd names."""
    return [
        {
            "word": "a/b=c é%" if n % 3 else None,
            "day": NOON.date(),
            "number": n,
            "at": NOON + datetime.timedelta(seconds=n),
        }
        for n in given
    ]


class Target:
    """A table that others write to while it is read."""

    def __init__(self, folder: Path, partitions: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.catalog = f"sqlite:///{folder}/catalog.db"
        self.table = IcebergTable(lambda: local_catalog(folder)).create(COLUMNS, partitions)

    def add(self, *given: int) -> "Target":
        """Add rows with a new snapshot."""
        types = [("word", pa.string()), ("day", pa.date32()), ("number", pa.int64()), ("at", pa.timestamp("us", "UTC"))]
        self.table.change(lambda table: table.append(pa.Table.from_pylist(rows(given), pa.schema(types))))
        return self

    def source(self, follow: float | None = FOLLOW_S, columns: tuple[Column, ...] = (), **more: Any) -> IcebergSource:
        return IcebergSource(IcebergInput(self.catalog, NAME, follow=follow, **more), columns)

    def opened(self, given: Iterable[SplitState] | None = None, **more: Any) -> list[TableLane]:
        """Open all lanes as a new process does: from the start, or from states."""
        return tables.opened(self.source(**more), given)


def test_it_keeps_the_rules_of_a_source_with_an_end_and_without(tmp_path: Path) -> None:
    target = Target(tmp_path)
    for first in range(3):
        target.add(*range(10 * first, 10 * first + 10))
    assert kit.check_source(lambda: target.source(None)) == 30
    later = iter(range(100, 1000))
    assert kit.check_source(target.source, lambda: target.add(next(later), next(later))) > 30


def test_values_are_those_of_the_table_in_a_snapshot_and_in_later_ones(tmp_path: Path) -> None:
    target = Target(tmp_path, {"word": "identity", "day": "identity"}).add(*range(4))
    lanes = target.opened()
    assert take(lanes) == rows(range(4))
    target.add(*range(4, 8))
    assert take(target.opened(states(lanes))) == rows(range(4, 8))


def rewritten(table: Table) -> None:
    """Write all rows into one new file, as a compaction does: the client has none."""
    found = table.scan().to_arrow()
    with table.transaction() as change, change.update_snapshot().overwrite() as update:
        overwritten = update._summary

        def replaced(properties: dict[str, str]) -> Summary:
            return Summary(Operation.REPLACE, **overwritten(properties).additional_properties)

        update._summary = replaced  # type: ignore[method-assign, assignment]
        for task in table.scan().plan_files():
            update.delete_data_file(task.file)
        for file in _dataframe_to_data_files(table.metadata, found, table.io):
            update.append_data_file(file)


def test_a_table_without_snapshots_is_read_from_its_first_one_on(tmp_path: Path) -> None:
    target = Target(tmp_path)
    assert all(state.finished for state in target.source(None).splits())
    lanes = target.opened(follow=1e-9)
    assert numbers(lanes) == []
    begun = states(lanes)
    target.add(1).add(2)
    assert numbers(lanes) == [1, 2]
    assert numbers(target.opened(begun)) == [1, 2]
    assert {lane.pending() for lane in lanes} == {(0, None)}
    assert numbers(target.opened(states(lanes))) == []


def test_what_is_left_is_counted(tmp_path: Path) -> None:
    target = Target(tmp_path).add(*range(20))
    (lane,) = (lane for lane in target.opened(follow=None) if not lane.state().finished)
    assert lane.pending() == (None, None), "not looked yet"
    seen = [lane.pending() for _ in range(3) if lane.read(7)]
    assert (seen, lane.state().finished) == ([(13, None), (6, None), (0, None)], True)


def test_the_event_time_of_a_lane_is_in_its_state(tmp_path: Path) -> None:
    target = Target(tmp_path).add(1)
    found = IcebergSource(IcebergInput(target.catalog, NAME, follow=FOLLOW_S), (), EventTime("at", 0))
    lanes = tables.opened(found)
    take(lanes)
    reached = {state.max_ts for state in states(lanes)} - {None}
    assert reached == {int(NOON.timestamp() + 1) * 1_000_000}
    assert {lane.state().max_ts for lane in tables.opened(found, states(lanes))} - {None} == reached


def test_a_snapshot_that_removes_rows_is_an_error_unless_it_is_to_be_left_out(tmp_path: Path) -> None:
    target = Target(tmp_path).add(1, 2)
    lanes = target.opened()
    assert numbers(lanes) == [1, 2]
    target.add(4)
    target.table.change(lambda table: table.delete("number = 1"))
    target.add(5)
    said = r"snapshot \d+: it removes rows \(operation overwrite\).*: give skipChangeCommits"
    with pytest.raises(StateError, match=said):
        take(target.opened(states(lanes)))
    assert numbers(target.opened(states(lanes), skip_change_commits=True)) == [4, 5]
    assert numbers(target.opened()) == [2, 4, 5], "a snapshot has what is left"


def test_files_that_are_only_rewritten_are_not_read_again_and_old_snapshots_may_expire(tmp_path: Path) -> None:
    target = Target(tmp_path).add(1).add(2)
    lanes = target.opened(follow=1e-9)
    assert numbers(lanes) == [1, 2]
    target.table.change(rewritten)
    assert numbers(lanes) == []
    target.table.change(expire_all_but_the_newest)
    target.add(4)
    assert numbers(lanes) == [4]
    assert numbers(target.opened()) == [1, 2, 4]


def renamed(table: Table) -> None:
    with table.update_schema() as update:
        update.rename_column("number", "figure")
        update.add_column("more", StringType())


def test_columns_are_found_by_their_numbers_also_in_older_files(tmp_path: Path) -> None:
    target = Target(tmp_path).add(1)
    lanes = target.opened(follow=1e-9)
    target.table.change(renamed)
    data = pa.table({"word": ["x"], "figure": pa.array([2], pa.int64()), "more": ["new"]})
    target.table.change(lambda table: table.append(data))
    assert numbers(lanes) == [1, 2], "the name of the start holds until the next one"
    reads = (read for lane in target.opened() for read in iter(lambda lane=lane: lane.read(9), None))  # type: ignore[misc]
    found = [row for read in reads for row in read.batch.to_pylist()]
    assert sorted((row["figure"], row["more"], row["day"]) for row in found) == [
        (1, None, NOON.date()),
        (2, "new", None),
    ]


def test_a_file_that_others_have_made_is_read_by_the_names_of_the_table(tmp_path: Path) -> None:
    target = Target(tmp_path, {"day": "identity"})
    file = tmp_path / "made.parquet"
    pq.write_table(pa.table({"word": ["x"], "number": pa.array([7], pa.int64()), "day": [NOON.date()]}), file)
    target.table.change(lambda table: table.add_files([str(file)]))
    assert take(target.opened()) == [{"word": "x", "day": NOON.date(), "number": 7, "at": None}]


def made_anew(target: Target) -> None:
    target.table.drop()
    target.table.create(COLUMNS)
    target.add(2)


def expired(target: Target) -> None:
    target.add(2)
    target.add(4)
    target.table.change(expire_all_but_the_newest)


def without_a_column(target: Target) -> None:
    def change(table: Table) -> None:
        with table.update_schema() as update:
            update.delete_column("number")

    target.table.change(change)


def without_its_files(target: Target) -> None:
    target.add(2)
    for file in (target.folder / "warehouse").rglob("*.parquet"):
        file.unlink()


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        (expired, r"snapshot \d+, which the job has read, is gone.*: they expired.*: let snapshots expire later"),
        (made_anew, "was made anew while the job reads it: put the old table back"),
        (without_a_column, "was changed: it changes column 'number', .*: it is gone; correct the columns"),
        (without_its_files, r"file .* of snapshot \d+ is gone: expire_snapshots or remove_orphan_files has removed it"),
    ],
)
def test_what_happens_to_a_table_while_it_is_read_is_told_with_a_remedy(
    tmp_path: Path, happens: Callable[[Target], None], said: str
) -> None:
    target = Target(tmp_path).add(1)
    lanes = target.opened(follow=1e-9)
    assert numbers(lanes) == [1]
    happens(target)
    with pytest.raises(StateError, match=f"iceberg source: table {NAME}.*{said}"):
        take(lanes)


def test_a_table_that_was_rolled_back_is_noticed(tmp_path: Path) -> None:
    target = Target(tmp_path).add(1)
    first = target.table.ask(lambda table: table.metadata.current_snapshot_id)
    lanes = target.add(2).opened(follow=1e-9)
    assert numbers(lanes) == [1, 2]
    target.table.change(lambda table: table.manage_snapshots().set_current_snapshot(first).commit())
    target.add(4)
    with pytest.raises(StateError, match=r"does not come from \d+, which the job has read: the table was rolled back"):
        take(lanes)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ((Column("numbr", "int64"),), "unknown column 'numbr'.*number"),
        ((Column("number", "string"),), "column 'number' is int64, declared is string"),
        ((), "column 'id' is uuid, which this source does not read: declare the columns to read, without it"),
    ],
)
def test_columns_that_cannot_be_read_are_refused_with_a_remedy(
    tmp_path: Path, columns: tuple[Column, ...], said: str
) -> None:
    target = Target(tmp_path).add(1)

    def change(table: Table) -> None:
        with table.update_schema() as update:
            update.add_column("id", UUIDType())
            update.add_column("tags", ListType(99, StringType(), element_required=False))

    target.table.change(change)
    with pytest.raises(ConfigError, match=f"iceberg source: table {NAME}: {said}"):
        target.source(columns=columns)
    assert numbers(tables.opened(target.source(columns=(Column("number", "int64"),)))) == [1]


def test_a_table_that_is_not_there_is_refused_with_a_remedy(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.table.drop()
    with pytest.raises(NotThere, match=f"iceberg: {NAME}: there is no table: correct `table` and `catalog`, or"):
        target.source()


def test_a_snapshot_without_a_summary_is_read_by_its_entries(tmp_path: Path) -> None:
    """A table of format version 1 may have such ones."""
    target = Target(tmp_path).add(1)
    lanes = target.opened()
    assert numbers(lanes) == [1]
    target.add(2)
    file = Path(target.table.ask(lambda table: table.metadata_location).removeprefix("file://"))
    told = json.loads(file.read_text())
    for snapshot in told["snapshots"]:
        del snapshot["summary"]
    file.write_text(json.dumps(told))
    assert numbers(target.opened(states(lanes))) == [2]


def test_secrets_are_read_again_when_an_attempt_begins(tmp_path: Path) -> None:
    """The store may have refused the old keys when a file of rows was read: no call of the catalog hears of that."""
    target = Target(tmp_path).add(1)
    key, secret = tmp_path / "key", tmp_path / "secret"
    key.write_text("a key"), secret.write_text("its secret")
    keys = {"access_key": f"file:{key}", "secret_key": f"file:{secret}"}
    source = IcebergSource(IcebergInput(catalog=target.catalog, table=NAME, follow=1e9, **keys), ())  # type: ignore[arg-type]
    splits = source.splits()
    assert numbers(tables.opened(source, splits)) == [1]
    key.unlink()
    with pytest.raises(ConfigError, match=f"iceberg: accessKey: there is no file {key}"):
        tables.opened(source, splits)
    key.write_text("a new key")
    assert numbers(tables.opened(source, splits)) == [1]
