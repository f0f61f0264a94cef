"""The Iceberg sink: each committed row once, in one snapshot of the table, wherever a process is killed or stopped."""

import json
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import DateType, IcebergType, IntegerType, LongType, StringType

from penstock.base.errors import ConfigError, StateError, StorageError
from penstock.connectors.file_output import parse_cut
from penstock.connectors.iceberg import client
from penstock.connectors.iceberg.client import IcebergPlace
from penstock.connectors.iceberg.iceberg_sink import IcebergSink
from penstock.connectors.iceberg.marked_snapshots import MarkedSnapshots
from penstock.connectors.iceberg.table_files import TableFile, TableFiles
from penstock.connectors.missing import NotThere
from penstock.connectors.staged_sink import StagedFile
from penstock.contract.iceberg_options import IcebergOutput
from penstock.contract.ids import Attempt, Epoch
from penstock.contract.latest import Unpublished
from penstock.file_system import OS_FILES
from penstock.protocol.marked import Wanted
from tests.support.iceberg import NAME, IcebergTable, expire_all_but_the_newest, local_catalog
from tests.support.long_tests import count
from tests.support.staged_output import ROWS, TASK, check_sink_apart, staged, staged_by_both

COLUMNS: dict[str, IcebergType] = {"word": StringType(), "number": LongType()}
EVERY = count(499, 23)  # outgoing calls


class Target:
    """A table, and a folder for what is staged."""

    def __init__(self, folder: Path, columns: dict[str, IcebergType] | None = None, **more: Any) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)
        self.options = IcebergOutput(catalog=f"sqlite:///{folder}/catalog.db", table=NAME)
        self.table = IcebergTable(lambda: local_catalog(folder)).create(columns or COLUMNS, **more)

    def sink(self) -> IcebergSink:
        return IcebergSink("out", self.options, ROWS.schema, self._folder / "staged")

    def claimed(self, uid: str = "job") -> IcebergSink:
        sink = self.sink()
        sink.claim(uid, fresh=True)
        return sink

    def visible(self) -> list[dict[str, object]]:
        return self.table.rows()


def test_it_keeps_the_rules_of_a_sink_wherever_a_process_is_killed_stopped_or_given_an_error(tmp_path: Path) -> None:
    # Stopped inside, a process has the lock of the catalog's file.
    report = check_sink_apart(Target, tmp_path, every=EVERY, locked_in=["commit_table"])
    assert min(report.killed, report.stopped, report.failed) >= report.calls // EVERY


def test_what_a_busy_catalog_did_not_commit_is_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "BUSY_MAX_S", "0")
    place = IcebergPlace(Target(tmp_path).options, "make it")
    with closing(sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM iceberg_tables").fetchall()  # nobody can commit until this has ended
        with pytest.raises(StorageError, match="database is locked"):
            place.commit(place.open(), [], {"marker": "0"}, {})
        assert "marker" not in place.open().properties
    place.commit(place.open(), [], {"marker": "0"}, {})
    assert place.open().properties["marker"] == "0"
    place.close()


class LostOnce(TableFiles):
    """Files of a table. The next manifest that is read is not answered."""

    lost = False

    def new_input(self, location: str) -> TableFile:
        if location.endswith("-m0.avro") and not LostOnce.lost:
            LostOnce.lost = True
            raise StorageError("the connection was lost")
        return super().new_input(location)


def test_a_store_that_is_away_while_manifests_are_merged_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merging: dict[str, Any] = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    target = Target(tmp_path, **merging)
    target.claimed().publisher.publish_all([staged(target.claimed(), 1)], Epoch(1))
    monkeypatch.setattr(client, "FILES", f"{__name__}.LostOnce")
    sink = target.claimed()
    handles = [staged(sink, 2)]
    with pytest.raises(StorageError, match=r"^the connection was lost$"):
        sink.publisher.publish_all(handles, Epoch(2))
    sink.publisher.publish_all(handles, Epoch(2))
    assert target.table.epochs() == [1, 2]


def test_one_snapshot_has_the_rows_of_all_tasks(tmp_path: Path) -> None:
    target = Target(tmp_path)
    sink = target.claimed()
    for epoch in (1, 2):
        handles = staged_by_both(sink, epoch)
        assert all(handle.whole for handle in handles)
        sink.publisher.publish_all(handles, Epoch(epoch))
    assert target.table.epochs() == [1, 2]
    assert Counter(row["number"] for row in target.visible()) == Counter(4 * list(range(18)))
    paths = target.table.ask(lambda table: [task.file.file_path for task in table.scan().plan_files()])
    assert len(set(paths)) == len(paths) == 4  # a reader that opens a path twice would count its rows twice


class Interrupted(IcebergPlace):
    """A table of which something happens once, while a file is written or just before a commit."""

    def __init__(self, options: IcebergOutput, happens: dict[str, Callable[[], object]]) -> None:
        super().__init__(options, "")
        self.happens = happens

    def write(self, *given: Any) -> None:
        self.happens.pop("write", int)()
        super().write(*given)

    def commit(self, *given: Any) -> None:
        self.happens.pop("commit", int)()
        super().commit(*given)


@pytest.mark.parametrize("moment", ["write", "commit"])
def test_a_publisher_that_another_one_overtakes_adds_nothing(tmp_path: Path, moment: str) -> None:
    target = Target(tmp_path)
    cut = parse_cut(json.loads(staged(target.claimed(), 1).data)["cut"], tmp_path / "staged" / "_staging" / "job")
    quick = MarkedSnapshots(IcebergPlace(target.options, ""), ("job", "out"))
    wanted = Wanted(Epoch(1), "ab" * 16, 1, quick.known(Epoch(0)))

    def publish(table: MarkedSnapshots) -> None:
        table.publish(wanted, [StagedFile(part, "here", OS_FILES) for part in cut.parts])

    late = MarkedSnapshots(Interrupted(target.options, {moment: lambda: publish(quick)}), ("job", "out"))
    if moment == "commit":
        with pytest.raises(StorageError, match="another commit came first"):
            publish(late)
    publish(late)
    assert target.table.epochs() == [1]
    assert Counter(row["number"] for row in target.visible()) == Counter(range(18))


def test_a_first_marker_that_comes_late_changes_nothing(tmp_path: Path) -> None:
    target = Target(tmp_path)
    sink = target.claimed()
    late = MarkedSnapshots(
        Interrupted(target.options, {"commit": lambda: sink.publisher.publish_all([staged(sink, 1)], Epoch(1))}),
        ("job", "out"),
    )
    assert late.known(Epoch(0)) == 1
    assert target.table.epochs() == [1]


def test_commits_of_other_writers_and_snapshots_that_expire_are_no_harm(tmp_path: Path) -> None:
    target = Target(tmp_path)
    sink = target.claimed()
    first, second = staged(sink, 1), staged(sink, 2)
    sink.publisher.publish_all([first], Epoch(1))
    target.table.change(lambda table: table.append(pa.Table.from_batches([ROWS])))
    target.table.change(expire_all_but_the_newest)
    sink.publisher.publish_all([first], Epoch(1))
    sink.publisher.publish_all([second], Epoch(2))
    assert target.table.epochs() == [2]
    assert Counter(row["number"] for row in target.visible()) == Counter(3 * list(range(18)))


def test_a_marker_that_is_ahead_or_lost_is_refused_with_a_remedy(tmp_path: Path) -> None:
    target = Target(tmp_path)
    sink = target.claimed()
    first, second = staged(sink, 1), staged(sink, 2, ROWS.slice(0, 6))
    sink.publisher.publish_all([second], Epoch(2))
    for epoch in (1, 2):
        said = f"its marker says epoch 2, and the job wants to publish other output as epoch {epoch}"
        with pytest.raises(StateError, match=said):
            sink.publisher.publish_all([first], Epoch(epoch))
    assert target.table.epochs() == [2]
    third = staged(sink, 3)
    target.table.drop()
    target.table.create(COLUMNS)
    with pytest.raises(StateError, match="its marker was at epoch 2, and now it is gone"):
        sink.publisher.publish_all([third], Epoch(3))
    assert target.visible() == []


def test_output_that_is_dropped_is_never_added(tmp_path: Path) -> None:
    target = Target(tmp_path)
    sink = target.claimed()
    handles = staged_by_both(sink, 1)
    sink.publisher.publish_restored(handles, Epoch(1), Unpublished.DROP)
    sink.publisher.publish_all(handles, Epoch(1))
    sink.publisher.publish_all(staged_by_both(sink, 2), Epoch(2))
    assert target.table.epochs() == [2]


def test_a_value_that_is_too_long_for_the_name_of_a_folder_is_a_partition(tmp_path: Path) -> None:
    target = Target(tmp_path, partitions={"word": "identity"})
    sink = target.claimed()
    rows = pa.record_batch({"word": [300 * "a", 100 * "é"], "number": pa.array([1, 2], pa.int64())})
    sink.publisher.publish_all([staged(sink, 1, rows)], Epoch(1))
    assert sorted(target.visible(), key=lambda row: str(row["word"])) == rows.to_pylist()


@pytest.mark.parametrize(
    ("columns", "more", "said"),
    [
        ({"word": StringType()}, {}, "unknown column 'number'"),
        ({"word": StringType(), "number": IntegerType()}, {}, "column 'number' is int, and the rows have long"),
        ({**COLUMNS, "day": DateType()}, {"required": ("day",)}, "column 'day' is required, and the rows lack it"),
        ({**COLUMNS, "day": DateType()}, {"partitions": {"day": "day"}}, "the rows lack its column 'day'"),
    ],
)
def test_a_table_that_does_not_take_the_rows_is_refused_before_a_row_is_read(
    tmp_path: Path, columns: dict[str, IcebergType], more: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=f"iceberg sink: table .*: {said}"):
        Target(tmp_path, columns, **more).claimed()


def test_a_null_in_a_required_column_is_refused_before_the_commit(tmp_path: Path) -> None:
    sink = Target(tmp_path, required=("word",)).claimed()
    rows = pa.record_batch({"word": pa.array([None], pa.string()), "number": pa.array([1], pa.int64())})
    with pytest.raises(ConfigError, match="does not take a row: column 'word': a null, and the column is NOT NULL"):
        sink.writer(TASK, Attempt(1)).write(rows)


def test_a_table_or_catalog_that_is_not_there_is_named_with_what_makes_it(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.table.drop()
    with pytest.raises(ConfigError, match=r"lake.words: there is no table: make it in Python: .*create_table"):
        target.claimed()
    with pytest.raises(NotThere, match="there is no table"):
        target.sink().claim("job", fresh=False)
    (tmp_path / "catalog.db").unlink()
    with pytest.raises(ConfigError, match=r"catalog.db: there is no such file: make it in Python: ") as told:
        target.claimed()
    subprocess.run([sys.executable, "-c", str(told.value).partition("in Python: ")[2]], check=True)
    sink = target.claimed()
    sink.publisher.publish_all([staged(sink, 1)], Epoch(1))
    assert len(target.visible()) == 18


def test_a_column_that_was_renamed_or_made_wider_keeps_its_rows(tmp_path: Path) -> None:
    target = Target(tmp_path)
    sink = target.claimed()
    handle = staged(sink, 1)

    def change(table: Any) -> None:
        with table.update_schema() as update:
            update.rename_column("word", "text")
            update.add_column("day", DateType())

    target.table.change(change)
    sink.publisher.publish_all([handle], Epoch(1))
    assert Counter(row["text"] for row in target.visible()) == Counter(ROWS["word"].to_pylist())


def test_a_column_that_was_removed_takes_no_row_with_it(tmp_path: Path) -> None:
    target = Target(tmp_path)
    sink = target.claimed()
    handle = staged(sink, 1)

    def change(table: Any) -> None:
        with table.update_schema() as update:
            update.delete_column("number")

    target.table.change(change)
    sink.publisher.publish_all([handle], Epoch(1))
    assert Counter(row["word"] for row in target.visible()) == Counter(ROWS["word"].to_pylist())


def test_other_partition_fields_stop_the_job_until_the_old_ones_are_back(tmp_path: Path) -> None:
    target = Target(tmp_path)
    sink = target.claimed()
    handle = staged(sink, 1)

    def change(table: Any) -> None:
        with table.update_spec() as update:
            update.add_identity("word")

    def back(table: Any) -> None:
        with table.update_spec() as update:
            update.remove_field("word")

    target.table.change(change)
    with pytest.raises(StateError, match="was changed: it has other partition fields: bring the old ones back"):
        sink.publisher.publish_all([handle], Epoch(1))
    target.table.change(back)
    sink.publisher.publish_all([handle], Epoch(1))
    assert len(target.visible()) == 18
