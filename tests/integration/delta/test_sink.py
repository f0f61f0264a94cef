"""The Delta Lake sink: each committed row once, in one commit of the table, wherever a process is killed or stopped."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.base.errors import ConfigError, StateError, StorageError
from penstock.connectors.delta.client import DeltaPlace
from penstock.connectors.delta.delta_sink import DeltaSink
from penstock.connectors.delta.marked_versions import MarkedVersions
from penstock.connectors.file_output import parse_cut
from penstock.connectors.missing import NotThere
from penstock.connectors.staged_sink import StagedFile
from penstock.contract.delta_options import DeltaOutput
from penstock.contract.ids import Attempt, Epoch
from penstock.contract.latest import Unpublished
from penstock.file_system import OS_FILES
from penstock.protocol.marked import Wanted
from tests.support.delta import Table
from tests.support.long_tests import count
from tests.support.staged_output import OTHER_TASK, ROWS, TASK, check_sink_apart, staged, staged_by_both

COLUMNS = {"word": "string", "number": "long"}
WORDS = Counter(ROWS["word"].to_pylist())
EVERY = count(193, 5)  # outgoing calls


class Target:
    """A table, and a folder for what is staged."""

    def __init__(self, folder: Path, columns: dict[str, str] | None = None, **more: object) -> None:
        self._folder = folder
        self.url = str(folder / "table")
        self.table = Table.in_folder(folder / "table").create(columns or COLUMNS, **more)  # type: ignore[arg-type]

    def sink(self) -> DeltaSink:
        return DeltaSink("out", DeltaOutput(table=self.url), ROWS.schema, self._folder / "staged")

    def claimed(self, uid: str = "job") -> DeltaSink:
        sink = self.sink()
        sink.claim(uid, fresh=True)
        return sink

    def visible(self) -> list[dict[str, object]]:
        return self.table.rows()


def test_it_keeps_the_rules_of_a_sink_wherever_a_process_is_killed_stopped_or_given_an_error(tmp_path: Path) -> None:
    report = check_sink_apart(Target, tmp_path, every=EVERY)
    assert min(report.killed, report.stopped, report.failed) >= report.calls // EVERY


def test_one_commit_has_the_rows_of_all_tasks(tmp_path: Path) -> None:
    target = Target(tmp_path)
    sink = target.claimed()
    for epoch in (1, 2):
        handles = staged_by_both(sink, epoch)
        assert all(handle.whole for handle in handles)
        sink.publisher.publish_all(handles, Epoch(epoch))
    assert target.table.epochs() == [1, 2]
    assert Counter(row["number"] for row in target.visible()) == Counter(4 * list(range(18)))


def test_partitions_of_the_table_are_kept(tmp_path: Path) -> None:
    target = Target(tmp_path, partitions=["word"])
    sink = target.claimed()
    odd = pa.record_batch({"word": ["a/b=c d", None, "é%"], "number": pa.array([18, 19, 20], pa.int64())})
    sink.publisher.publish_all([staged(sink, 1), staged(sink, 1, odd, task=OTHER_TASK)], Epoch(1))
    found = sorted(target.visible(), key=lambda row: int(str(row["number"])))
    assert found == [{"number": row["number"], "word": row["word"]} for row in (*ROWS.to_pylist(), *odd.to_pylist())]


class Interrupted(DeltaPlace):
    """A table of which something happens once, before or after a file is written, or just before a commit."""

    def __init__(self, options: DeltaOutput, happens: dict[str, Callable[[], object]]) -> None:
        super().__init__(options, "")
        self.happens = happens

    def write(self, name: str, data: bytes) -> None:
        self.happens.pop("write", int)()
        super().write(name, data)
        self.happens.pop("written", int)()

    def commit(self, *given: Any) -> None:
        self.happens.pop("commit", int)()
        super().commit(*given)


@pytest.mark.parametrize("moment", ["write", "commit"])
def test_a_publisher_that_another_one_overtakes_adds_nothing(tmp_path: Path, moment: str) -> None:
    target = Target(tmp_path)
    cut = parse_cut(json.loads(staged(target.claimed(), 1).data)["cut"], tmp_path / "staged" / "_staging" / "job")
    options = DeltaOutput(table=target.url)
    quick = MarkedVersions(DeltaPlace(options, ""), ("job", "out"))
    wanted = Wanted(Epoch(1), "ab" * 16, 1, quick.known(Epoch(0)))

    def publish(table: MarkedVersions) -> None:
        table.publish(wanted, [StagedFile(part, "here", OS_FILES) for part in cut.parts])

    late = MarkedVersions(Interrupted(options, {moment: lambda: publish(quick)}), ("job", "out"))
    if moment == "commit":
        with pytest.raises(StorageError, match="delta: "):
            publish(late)
    publish(late)
    assert target.table.epochs() == [1]
    assert Counter(row["number"] for row in target.visible()) == Counter(range(18))


def test_vacuum_does_not_remove_a_file_whose_first_copy_is_old(tmp_path: Path) -> None:
    target = Target(tmp_path)
    cut = parse_cut(json.loads(staged(target.claimed(), 1).data)["cut"], tmp_path / "staged" / "_staging" / "job")
    options = DeltaOutput(table=target.url)
    removed: list[str] = []

    def is_away() -> None:
        raise StorageError("no answer")

    def vacuum() -> None:
        removed.extend(DeltaTable(target.url).vacuum(7 * 24, dry_run=False, full=True))

    tries: tuple[dict[str, Callable[[], object]], ...] = ({"commit": is_away}, {"written": vacuum})
    for happens in tries:
        place = Interrupted(options, happens)
        table = MarkedVersions(place, ("job", "out"))
        wanted = Wanted(Epoch(1), "ab" * 16, 1, Epoch(0))
        with suppress(StorageError):
            table.publish(wanted, [StagedFile(part, "here", OS_FILES) for part in cut.parts])
        for path in Path(target.url).glob("*.parquet"):
            os.utime(path, (path.stat().st_mtime - 8 * 86_400,) * 2)
    assert len(removed) == 1
    assert Counter(row["number"] for row in target.visible()) == Counter(range(18))


def test_a_commit_of_another_writer_in_between_is_no_harm(tmp_path: Path) -> None:
    target = Target(tmp_path)
    sink = target.claimed()
    sink.publisher.publish_all([staged(sink, 1)], Epoch(1))
    target.table.add({"txn": {"appId": "theirs", "version": 7, "lastUpdated": 0}})
    sink.publisher.publish_all([staged(sink, 2)], Epoch(2))
    assert target.table.epochs() == [1, 2]


def test_a_marker_that_is_ahead_or_lost_is_refused_with_a_remedy(tmp_path: Path) -> None:
    target = Target(tmp_path)
    sink = target.claimed()
    first, second = staged(sink, 1), staged(sink, 2, ROWS.slice(0, 6))
    sink.publisher.publish_all([second], Epoch(2))
    with pytest.raises(
        StateError, match="its marker says epoch 2, and the job wants to publish other output as epoch 1"
    ):
        sink.publisher.publish_all([first], Epoch(1))
    with pytest.raises(
        StateError, match="its marker says epoch 2, and the job wants to publish other output as epoch 2"
    ):
        sink.publisher.publish_all([first], Epoch(2))
    assert target.table.epochs() == [2]
    third = staged(sink, 3)
    shutil.rmtree(target.url)
    table = Table.in_folder(Path(target.url)).create(COLUMNS)
    with pytest.raises(StateError, match="its marker was at epoch 2, and now it is gone"):
        sink.publisher.publish_all([third], Epoch(3))
    assert table.rows() == []


def test_output_that_is_dropped_is_never_added(tmp_path: Path) -> None:
    target = Target(tmp_path)
    sink = target.claimed()
    handles = staged_by_both(sink, 1)
    sink.publisher.publish_restored(handles, Epoch(1), Unpublished.DROP)
    sink.publisher.publish_all(handles, Epoch(1))
    sink.publisher.publish_all(staged_by_both(sink, 2), Epoch(2))
    assert target.table.epochs() == [2]


def test_a_committed_file_that_is_gone_stops_the_job(tmp_path: Path) -> None:
    target = Target(tmp_path)
    sink = target.claimed()
    handle = staged(sink, 1)
    sink.publisher.discard(handle)
    with pytest.raises(StateError, match=r"staged file .* is gone: restore it, or give"):
        sink.publisher.publish_all([handle], Epoch(1))


@pytest.mark.parametrize(
    ("columns", "more", "said"),
    [
        ({"word": "string"}, {}, "unknown column 'number'"),
        ({"word": "string", "number": "integer"}, {}, "column 'number' is integer, and the rows have long"),
        ({**COLUMNS, "day": "date"}, {"not_null": ["day"]}, "column 'day' is NOT NULL, and the rows lack it"),
        (
            COLUMNS,
            {"delta.constraints.least": "number > 0"},
            "it has CHECK constraints.*: drop delta.constraints.least",
        ),
        (COLUMNS, {"partitions": ["word", "number"]}, "leave one for the files"),
    ],
)
def test_a_table_that_does_not_take_the_rows_is_refused_before_a_row_is_read(
    tmp_path: Path, columns: dict[str, str], more: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigError, match=f"delta sink: table .*: {said}"):
        Target(tmp_path, columns, **more).claimed()


def test_a_column_that_the_rows_lack_is_null(tmp_path: Path) -> None:
    target = Target(tmp_path, {**COLUMNS, "day": "date"})
    sink = target.claimed()
    sink.publisher.publish_all([staged(sink, 1)], Epoch(1))
    assert len(target.visible()) == 18


def test_a_null_where_the_table_takes_none_is_refused_before_the_commit(tmp_path: Path) -> None:
    sink = Target(tmp_path, not_null=["word"]).claimed()
    rows = pa.record_batch({"word": pa.array([None], pa.string()), "number": pa.array([1], pa.int64())})
    with pytest.raises(ConfigError, match="does not take a row: column 'word': a null, and the column is NOT NULL"):
        sink.writer(TASK, Attempt(1)).write(rows)


def test_a_table_that_is_not_there_is_named_with_what_makes_it(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.url = str(tmp_path / "missing")
    with pytest.raises(
        ConfigError, match=r"missing: there is no table: make it in Python: .*DeltaTable.create"
    ) as told:
        target.claimed()
    with pytest.raises(NotThere, match="there is no table"):
        target.sink().claim("job", fresh=False)
    subprocess.run([sys.executable, "-c", str(told.value).partition("in Python: ")[2]], check=True)
    sink = target.claimed()
    sink.publisher.publish_all([staged(sink, 1)], Epoch(1))


@pytest.mark.parametrize(("before", "after"), [((), ("word",)), (("word",), ()), (("word",), ("number",))])
def test_other_partition_columns_stop_the_job_until_the_old_ones_are_back(
    tmp_path: Path, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    """Before, the values of a partition column that the file has were lost, or nobody could read the table any more."""
    target = Target(tmp_path, partitions=before)
    sink = target.claimed()
    handle = staged(sink, 1)
    old = target.table.versions()[0][1]
    target.table.add({"metaData": {**old["metaData"], "partitionColumns": list(after)}})
    with pytest.raises(StateError, match=r"was changed: its partition columns are others now .*: bring the old ones"):
        sink.publisher.publish_all([handle], Epoch(1))
    target.table.add(old)
    sink.publisher.publish_all([handle], Epoch(1))
    assert Counter(row["word"] for row in DeltaTable(target.url).to_pyarrow_table().to_pylist()) == WORDS


def test_rows_that_were_staged_before_table_and_job_were_changed_are_not_added(tmp_path: Path) -> None:
    """Before, a file with whole numbers was added to a table that has texts there."""
    target = Target(tmp_path)
    old = target.claimed()
    handle = staged(old, 1)
    texts = Table.in_folder(tmp_path / "other").create({"word": "string", "number": "string"})
    target.table.add(texts.versions()[0][1])
    rows = pa.schema([("word", pa.string()), ("number", pa.string())])
    new = DeltaSink("out", DeltaOutput(table=target.url), rows, tmp_path / "staged")
    new.claim("job", fresh=False)
    with pytest.raises(StateError, match=r"was changed: column 'number' is string, and the rows have long"):
        new.publisher.publish_all([handle], Epoch(1))


def test_rows_with_a_null_are_not_added_to_a_table_that_takes_none_any_more(tmp_path: Path) -> None:
    target = Target(tmp_path)
    sink = target.claimed()
    handle = staged(sink, 1, pa.record_batch({"word": pa.array([None], pa.string()), "number": [1]}))
    strict = Table.in_folder(tmp_path / "other").create(COLUMNS, not_null=["word"])
    target.table.add(strict.versions()[0][1])
    with pytest.raises(StateError, match=r"was changed: column 'word' is NOT NULL, and committed rows have a null"):
        sink.publisher.publish_all([handle], Epoch(1))


def test_a_table_that_lost_a_column_stops_the_job(tmp_path: Path) -> None:
    target = Target(tmp_path)
    sink = target.claimed()
    handle = staged(sink, 1)
    other = Table.in_folder(tmp_path / "other").create({"word": "string"})
    target.table.add(other.versions()[0][1])
    with pytest.raises(StateError, match=r"was changed: unknown column 'number'.*then start the job again"):
        sink.publisher.publish_all([handle], Epoch(1))
