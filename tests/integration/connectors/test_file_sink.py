import errno
import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.base import limits
from penstock.base.errors import ConfigError, StateError, StorageError
from penstock.connectors.file_sink import FileSinkWriter, ParquetSink
from penstock.contract.ids import Attempt, Epoch, Ordinal, StageIndex, TaskId
from penstock.contract.manifest import SinkHandle

SCHEMA = pa.schema([("word", pa.string()), ("count", pa.int64())])
TASK = TaskId(StageIndex(1), Ordinal(0), 0)
HIDDEN = SCHEMA.append(pa.field("__bound", pa.int64()))


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[ParquetSink]:
    made = ParquetSink("out", str(tmp_path / "o"), HIDDEN)
    made.claim("job-1", fresh=True)
    yield made
    made.close()


def batch(*words: str) -> pa.RecordBatch:
    columns = [list(words), list(range(len(words))), [0] * len(words)]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, HIDDEN, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=HIDDEN)


def prepare(writer: FileSinkWriter, epoch: int, *words: str) -> SinkHandle:
    writer.write(batch(*words))
    handle = writer.seal(Epoch(epoch), "name").finish()
    assert handle is not None
    return handle


def visible(folder: Path) -> list[str]:
    return sorted(p.name for p in (folder / "o").glob("**/*.parquet"))


def no_links(*_paths: object, **_options: object) -> None:
    raise OSError(errno.EPERM, "no links here")


def staged(folder: Path, job: str = "job-1") -> list[str]:
    return sorted(p.name for p in (folder / "o" / "_staging" / job).glob("*.part"))


def words(folder: Path) -> list[str]:
    tables = [pq.read_table(folder / "o" / name) for name in visible(folder)]
    return [w for t in tables for w in t["word"].to_pylist()]


def test_rows_are_visible_after_publication_only(sink: ParquetSink, tmp_path: Path) -> None:
    handle = prepare(sink.writer(TASK, Attempt(1)), 4, "a", "b")
    assert visible(tmp_path) == []
    assert (handle.sink, handle.task, handle.epoch, handle.rows) == ("out", TASK, 4, 2)
    sink.publisher.publish(handle, Epoch(5))
    assert visible(tmp_path) == ["000000000005-out-001.0000.0000-000001-0000.parquet"]
    read = pq.read_table(tmp_path / "o" / visible(tmp_path)[0])
    assert read.schema.remove_metadata() == SCHEMA
    assert read["word"].to_pylist() == ["a", "b"]


def test_publishing_again_changes_nothing_even_without_staging(sink: ParquetSink, tmp_path: Path) -> None:
    handle = prepare(sink.writer(TASK, Attempt(1)), 1, "a")
    sink.publisher.publish(handle, Epoch(1))
    sink.publisher.publish(handle, Epoch(1))
    sink.publisher.forget(handle)
    sink.publisher.forget(handle)
    other = ParquetSink("out", str(tmp_path / "o"), SCHEMA)
    other.claim("job-1", fresh=False)
    other.publisher.publish(handle, Epoch(1))
    other.close()
    assert words(tmp_path) == ["a"]
    assert staged(tmp_path) == []


def test_carried_handles_keep_their_order_in_the_epoch_that_commits_them(sink: ParquetSink, tmp_path: Path) -> None:
    writer = sink.writer(TASK, Attempt(1))
    carried = prepare(writer, 6, "first")
    again = prepare(writer, 5, "second")  # an aborted number recurs under a higher term
    for handle in (again, carried):
        sink.publisher.publish(handle, Epoch(5))
    assert words(tmp_path) == ["first", "second"]


def test_an_epoch_without_rows_has_no_handle(sink: ParquetSink) -> None:
    writer = sink.writer(TASK, Attempt(1))
    writer.write(batch())
    assert writer.seal(Epoch(1), "name").finish() is None


def test_something_else_at_the_name_is_never_overwritten(sink: ParquetSink, tmp_path: Path) -> None:
    handle = prepare(sink.writer(TASK, Attempt(1)), 1, "a")
    sink.publisher.publish(handle, Epoch(1))
    target = tmp_path / "o" / visible(tmp_path)[0]
    data = target.read_bytes()
    target.unlink()
    target.write_bytes(data[:-1] + b"?")
    with pytest.raises(StateError, match="exists and is not the committed output"):
        sink.publisher.publish(handle, Epoch(1))
    assert target.read_bytes()[-1:] == b"?"


def test_lost_staging_of_committed_output_is_an_error(sink: ParquetSink) -> None:
    handle = prepare(sink.writer(TASK, Attempt(1)), 1, "a")
    sink.publisher.discard(handle)
    with pytest.raises(StateError, match="neither it nor its staged file"):
        sink.publisher.publish(handle, Epoch(1))


def test_a_handle_cannot_reach_outside_its_folder(sink: ParquetSink) -> None:
    handle = prepare(sink.writer(TASK, Attempt(1)), 1, "a")
    plain = json.loads(handle.data)
    plain["parts"][0]["staged"] = "../../passwd"
    bad = SinkHandle("out", TASK, Epoch(1), json.dumps(plain), 1, 1)
    for use in (sink.publisher.discard, sink.publisher.forget):
        with pytest.raises(StateError, match="damaged handle"):
            use(bad)


def test_a_full_disk_fails_the_epoch_and_keeps_the_rows(sink: ParquetSink, tmp_path: Path) -> None:
    writer = sink.writer(TASK, Attempt(1))
    staging = tmp_path / "o" / "_staging" / "job-1"
    hidden = staging.rename(tmp_path / "away")  # nothing can be staged, as on a full disk
    writer.write(batch("a"))
    with pytest.raises(StorageError, match="cannot stage"):
        writer.seal(Epoch(1), "name").finish()
    hidden.rename(staging)
    handle = prepare(writer, 2, "b")
    sink.publisher.publish(handle, Epoch(2))
    assert words(tmp_path) == ["a", "b"]


@pytest.mark.parametrize("reason", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK])
def test_where_links_are_missing_files_are_renamed(
    sink: ParquetSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    def no_link(*_paths: object, **_options: object) -> None:
        raise OSError(reason, "no links here")

    monkeypatch.setattr("os.link", no_link)
    handle = prepare(sink.writer(TASK, Attempt(1)), 1, "a")
    sink.publisher.publish(handle, Epoch(1))
    sink.publisher.publish(handle, Epoch(1))
    sink.publisher.forget(handle)
    assert words(tmp_path) == ["a"]


@pytest.mark.parametrize("call", ["stat", "link"])
@pytest.mark.parametrize("at", range(4))
def test_without_links_two_publishers_of_one_handle_agree(
    sink: ParquetSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, at: int
) -> None:
    """B stops before one of its calls, and A publishes the same handle meanwhile."""
    handle = prepare(sink.writer(TASK, Attempt(1)), 4, "a", "b")
    others: dict[str, Any] = {"stat": os.stat, "link": no_links}
    real, calls, done = others.pop(call), list[str](), list[bool]()

    def called(path: Any, *more: Any, **options: Any) -> Any:
        if str(path).endswith((".part", ".parquet")):
            calls.append(str(path))
            if len(calls) == at + 1 and not done:
                done.append(True)
                sink.publisher.publish(handle, Epoch(5))
        return real(path, *more, **options)

    monkeypatch.setattr(os, call, called)
    for name, other in others.items():
        monkeypatch.setattr(os, name, other)
    sink.publisher.publish(handle, Epoch(5))
    assert words(tmp_path) == ["a", "b"]


def test_a_part_that_is_being_written_when_its_attempt_ends_is_removed(
    sink: ParquetSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The encoder stands still inside a part; its attempt ends, and the next one sweeps."""
    monkeypatch.setattr(limits, "SINK_PART_BYTES", 1)
    held, go_on, real = threading.Event(), threading.Event(), os.fsync

    def fsync(file: int) -> None:
        if threading.current_thread().name.startswith("encode"):
            held.set()
            assert go_on.wait(60)
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    writer = sink.writer(TASK, Attempt(1))
    writer.write(batch("a"))
    writer.write(batch("queued behind it"))
    assert held.wait(60)
    writer.close()
    sink.sweep(Attempt(2))
    go_on.set()
    sink.close()
    encoders = [t for t in threading.enumerate() if t.name.startswith("encode")]
    for thread in encoders:
        thread.join(60)
    assert staged(tmp_path) == []


def test_a_cut_that_is_being_stored_when_its_attempt_is_swept_is_removed(
    sink: ParquetSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The storer stands still inside a cut of an attempt that has ended meanwhile."""
    writer, real = sink.writer(TASK, Attempt(1)), os.fsync
    writer.write(batch("a"))
    pending = writer.seal(Epoch(1), "name")

    def fsync(file: int) -> None:
        monkeypatch.setattr(os, "fsync", real)
        sink.sweep(Attempt(2))
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StorageError, match="attempt 1 is over"):
        pending.finish()
    assert staged(tmp_path) == []
    assert sink.writer(TASK, Attempt(2)).seal(Epoch(1), "name").finish() is None


def test_rows_that_are_in_no_cut_are_dropped_with_their_writer(
    sink: ParquetSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SINK_PART_BYTES", 1)
    writer = sink.writer(TASK, Attempt(1))
    prepared = prepare(writer, 1, "in a handle")
    writer.write(batch("in no handle"))
    writer.close()
    sink.close()
    encoders = [t for t in threading.enumerate() if t.name.startswith("encode")]
    for thread in encoders:
        thread.join(60)
    assert len(staged(tmp_path)) == 1
    sink.publisher.publish(prepared, Epoch(1))
    assert words(tmp_path) == ["in a handle"]


def test_a_full_disk_at_publication_may_be_tried_again(
    sink: ParquetSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = prepare(sink.writer(TASK, Attempt(1)), 1, "a")
    with monkeypatch.context() as full:

        def no_space(*_paths: object, **_options: object) -> None:
            raise OSError(errno.ENOSPC, "no space")

        full.setattr("os.link", no_space)
        with pytest.raises(StorageError, match="cannot publish"):
            sink.publisher.publish(handle, Epoch(1))
    sink.publisher.publish(handle, Epoch(1))
    assert words(tmp_path) == ["a"]


def test_a_second_cut_waits_for_the_first(sink: ParquetSink) -> None:
    writer = sink.writer(TASK, Attempt(1))
    writer.seal(Epoch(1), "name")
    with pytest.raises(AssertionError, match="the cut before is unfinished"):
        writer.seal(Epoch(2), "name")


def test_many_rows_become_several_parts_in_order(sink: ParquetSink, tmp_path: Path) -> None:
    writer = sink.writer(TASK, Attempt(1))
    text = "x" * (1 << 20)
    rows = limits.SINK_PART_BYTES // len(text) + 1
    for number in range(2 * rows):
        assert writer.room()
        writer.write(batch(f"{number:04d}{text}"))
    handle = prepare(writer, 1, "last")
    sink.publisher.publish(handle, Epoch(1))
    assert len(visible(tmp_path)) == 3
    assert [w[:4] for w in words(tmp_path)] == [f"{n:04d}" for n in range(2 * rows)] + ["last"]


def test_a_sink_has_no_room_while_the_disk_is_behind(sink: ParquetSink, tmp_path: Path) -> None:
    writer = sink.writer(TASK, Attempt(1))
    staging = tmp_path / "o" / "_staging" / "job-1"
    hidden = staging.rename(tmp_path / "away")
    text = "x" * (1 << 22)
    while writer.room():
        writer.write(batch(text))
    hidden.rename(staging)
    assert writer.seal(Epoch(1), "name").finish() is not None
    assert writer.room()


def test_a_fresh_job_refuses_the_output_of_another(sink: ParquetSink, tmp_path: Path) -> None:
    handle = prepare(sink.writer(TASK, Attempt(1)), 1, "a")
    sink.publisher.publish(handle, Epoch(1))
    sink.claim("job-1", fresh=True)
    for fresh in (True, False):
        with pytest.raises(ConfigError, match="already holds 1 files that this job did"):
            ParquetSink("out", str(tmp_path / "o"), SCHEMA).claim("job-2", fresh=fresh)
    assert words(tmp_path) == ["a"]


def test_many_workers_claim_at_the_same_moment(tmp_path: Path) -> None:
    def claim(_: int) -> None:
        sink = ParquetSink("out", str(tmp_path), SCHEMA)
        sink.claim("job-1", fresh=True)
        sink.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(claim, range(64)))
    assert sorted(p.name for p in (tmp_path / "_staging").iterdir()) == ["OWNER.json", "job-1"]


def test_foreign_files_are_refused_at_a_fresh_start(tmp_path: Path) -> None:
    (tmp_path / "mine.parquet").write_text("")
    sink = ParquetSink("out", str(tmp_path), SCHEMA)
    with pytest.raises(ConfigError, match=r"mine\.parquet.*name an empty folder"):
        sink.claim("job-1", fresh=True)
    sink.close()


def test_an_output_that_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    sink = ParquetSink("out", str(tmp_path / "file"), SCHEMA)
    with pytest.raises(ConfigError, match="cannot write to"):
        sink.claim("job-1", fresh=True)
    sink.close()


def test_a_sweep_removes_what_older_attempts_staged(sink: ParquetSink, tmp_path: Path) -> None:
    prepare(sink.writer(TASK, Attempt(1)), 1, "old")
    new = prepare(sink.writer(TASK, Attempt(2)), 1, "new")
    sink.sweep(Attempt(2))
    assert len(staged(tmp_path)) == 1
    sink.publisher.publish(new, Epoch(1))
    assert words(tmp_path) == ["new"]


# --- A line of jobs in one folder -----------------------------------------------------------------


@contextmanager
def life(folder: Path, job: str, parent: tuple[str, int] | None = None) -> Iterator[ParquetSink]:
    """One engine of the job ``job``, perhaps begun from epoch n of another."""
    made = ParquetSink("out", str(folder / "o"), HIDDEN)
    try:
        if parent is None:
            made.claim(job, fresh=False)
        else:
            made.inherit(job, parent[0], Epoch(parent[1]))
        yield made
    finally:
        made.close()


def write(made: ParquetSink, epoch: int, *rows: str) -> None:
    handle = prepare(made.writer(TASK, Attempt(1)), epoch, *rows)
    made.publisher.publish(handle, Epoch(epoch))


def test_a_line_of_jobs_writes_one_folder_in_order(tmp_path: Path) -> None:
    with life(tmp_path, "job-1") as first:
        write(first, 40, "old")
    with life(tmp_path, "job-2", ("job-1", 40)) as second:
        write(second, 42, "newer")
    with life(tmp_path, "job-2") as again, life(tmp_path, "job-2", ("job-1", 40)) as late:
        write(again, 43, "newer still")  # ``again`` has published nothing, and does not know the parent
        write(late, 44, "and another")
    with life(tmp_path, "job-3", ("job-2", 44)) as third:
        write(third, 46, "newest")
    assert words(tmp_path) == ["old", "newer", "newer still", "and another", "newest"]


def test_a_child_is_refused_where_its_parent_went_on(tmp_path: Path) -> None:
    with life(tmp_path, "job-1") as first:
        write(first, 40, "old")
        write(first, 41, "since the savepoint")
        with (
            pytest.raises(ConfigError, match=r"job job-1 up to epoch 41.*is of epoch 40.*empty fo"),
            life(tmp_path, "job-2", ("job-1", 40)),
        ):
            pass
        write(first, 42, "and it goes on")
    assert len(visible(tmp_path)) == 3


def test_only_one_child_of_a_savepoint_gets_the_folder(tmp_path: Path) -> None:
    with life(tmp_path, "job-1") as first:
        write(first, 40, "old")
    with life(tmp_path, "job-2", ("job-1", 40)) as second:
        with (
            pytest.raises(ConfigError, match=r"they are output of job job-2: name an empty folder"),
            life(tmp_path, "job-3", ("job-1", 40)),
        ):
            pass
        write(second, 42, "newer")


def test_a_parent_publishes_nothing_once_its_child_has_the_folder(tmp_path: Path) -> None:
    with life(tmp_path, "job-1") as first:
        write(first, 40, "old")
        late = prepare(first.writer(TASK, Attempt(1)), 41, "since the savepoint")
        with life(tmp_path, "job-2", ("job-1", 40)) as second:
            with pytest.raises(StateError, match=r"job job-2 has taken output folder .* over from"):
                first.publisher.publish(late, Epoch(41))
            write(second, 42, "newer")
    with (
        pytest.raises(ConfigError, match=r"they are output of job job-2"),
        life(tmp_path, "job-1"),
    ):
        pass
    assert words(tmp_path) == ["old", "newer"]


def test_a_job_whose_empty_folder_was_taken_is_told_by_whom(tmp_path: Path) -> None:
    with life(tmp_path, "job-1") as first, life(tmp_path, "job-2") as second:
        with pytest.raises(StorageError, match="job job-2 has taken output folder"):
            prepare(first.writer(TASK, Attempt(1)), 1, "nowhere")
        write(second, 1, "the only row")
    assert words(tmp_path) == ["the only row"]


def test_output_that_a_parent_published_unseen_is_found_before_the_first_publication(tmp_path: Path) -> None:
    with life(tmp_path, "job-1") as first:
        write(first, 40, "old")
    with life(tmp_path, "job-2", ("job-1", 40)) as second:
        name = visible(tmp_path)[0].replace("000000000040", "000000000041")
        (tmp_path / "o" / name).write_bytes(b"linked, and not yet in the list of another machine")
        handle = prepare(second.writer(TASK, Attempt(1)), 42, "newer")
        with pytest.raises(StateError, match="up to epoch 41, above the savepoint"):
            second.publisher.publish(handle, Epoch(42))
    assert not any(name.startswith("000000000042") for name in visible(tmp_path))


def test_a_parent_that_links_while_it_is_taken_over_keeps_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with life(tmp_path, "job-1") as first:
        write(first, 40, "old")
        late = prepare(first.writer(TASK, Attempt(1)), 41, "since the savepoint")
        real = os.replace

        def replace(source: Path, target: Path) -> None:
            monkeypatch.setattr(os, "replace", real)
            first.publisher.publish(late, Epoch(41))  # after the first look, before OWNER changes
            real(source, target)

        monkeypatch.setattr(os, "replace", replace)
        with (
            pytest.raises(ConfigError, match="up to epoch 41"),
            life(tmp_path, "job-2", ("job-1", 40)),
        ):
            pass
        write(first, 42, "and it goes on")
    assert words(tmp_path) == ["old", "since the savepoint", "and it goes on"]


def test_what_an_earlier_version_has_staged_is_published(tmp_path: Path) -> None:
    with life(tmp_path, "job-1") as first:
        handle = prepare(first.writer(TASK, Attempt(1)), 1, "a")
        (name,) = staged(tmp_path)
        staging = tmp_path / "o" / "_staging"
        (staging / "job-1" / name).rename(staging / name)
    with life(tmp_path, "job-1") as again:
        again.publisher.publish(handle, Epoch(1))
    assert words(tmp_path) == ["a"]


def test_the_owner_of_a_folder_survives_a_power_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, synced = os.fsync, list[str]()

    def noted(file: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{file}"))
        real(file)

    monkeypatch.setattr(os, "fsync", noted)
    with life(tmp_path, "job-1"):
        pass
    staging = tmp_path / "o" / "_staging"
    assert {str(p) for p in (tmp_path, tmp_path / "o", staging)} <= set(synced)
    assert any(path.startswith(str(staging / "OWNER.json.")) for path in synced)


def test_a_folder_of_another_owner_is_refused_and_not_changed(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1]}), tmp_path / "theirs.parquet")
    made = ParquetSink("out", str(tmp_path), HIDDEN)
    with pytest.raises(ConfigError, match="that this job did not write"):
        made.claim("job-1", fresh=True)
    made.close()
    assert [path.name for path in tmp_path.iterdir()] == ["theirs.parquet"]


def test_a_committed_row_survives_a_power_failure(
    sink: ParquetSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, synced = os.fsync, list[tuple[str, int]]()

    def noted(file: int) -> None:
        synced.append((os.readlink(f"/proc/self/fd/{file}"), os.fstat(file).st_size))
        real(file)

    writer = sink.writer(TASK, Attempt(1))
    monkeypatch.setattr(os, "fsync", noted)
    handle = prepare(writer, 1, "a")
    (part,) = (tmp_path / "o" / "_staging" / "job-1").glob("*.part")
    names = [path for path, _ in synced]
    assert (str(part), part.stat().st_size) in synced, "every byte of it"
    assert names.index(str(part)) < names.index(str(part.parent)), "then its name"
    synced.clear()
    sink.publisher.publish(handle, Epoch(1))
    assert str(tmp_path / "o") in [path for path, _ in synced], "the name that readers see"


def test_files_of_an_owner_that_were_never_renamed_are_swept(sink: ParquetSink, tmp_path: Path) -> None:
    left = tmp_path / "o" / "_staging" / "OWNER.json.0123"
    left.write_text("{")
    sink.sweep(Attempt(2))
    assert sorted(path.name for path in left.parent.iterdir()) == ["OWNER.json", "job-1"]
