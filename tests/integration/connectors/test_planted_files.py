"""Links and pipes that another user has put where a job writes, reads and removes files."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError, PenstockError, StateError, StorageError
from penstock.connectors import published
from penstock.connectors.announce import (
    SUFFIX,
    finished_note,
    read_announcements,
    read_note,
    write_note,
)
from penstock.connectors.file_output import parquet_form, stage
from penstock.connectors.file_sink import ParquetSink
from penstock.contract.ids import Attempt, Epoch, JobUid, Ordinal, StageIndex, TaskId
from penstock.file_system import OS_FILES

SCHEMA = pa.schema([("n", pa.int64())])
ROWS = pa.record_batch({"n": [1, 2]})
TASK = TaskId(StageIndex(0), Ordinal(0), 0)


def sink_in(output: Path) -> ParquetSink:
    return ParquetSink("out", str(output), SCHEMA)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Give a folder of the user's with work in it, which no job may touch."""
    home = tmp_path / "home"
    for name in ("work", "keys"):
        (home / name).mkdir(parents=True)
        (home / name / "mine.part").write_text(name)
    return home


def untouched(home: Path) -> bool:
    return sorted(str(p.relative_to(home)) for p in home.rglob("*")) == [
        "keys",
        "keys/mine.part",
        "work",
        "work/mine.part",
    ]


def test_a_link_in_the_place_of_the_staging_folder_is_refused_before_anything_is_removed(
    tmp_path: Path, home: Path
) -> None:
    output = tmp_path / "out"
    output.mkdir()
    (output / "_staging").symlink_to(home)
    with pytest.raises(ConfigError, match="_staging, which is a link or no folder"):
        sink_in(output).claim("me", False)
    assert untouched(home)


def test_a_link_in_the_place_of_the_jobs_own_folder_is_refused(tmp_path: Path, home: Path) -> None:
    output = tmp_path / "out"
    sink_in(output).claim("before", False)
    (output / "_staging" / "me").symlink_to(home)
    with pytest.raises(ConfigError, match="_staging/me, which is a link"):
        sink_in(output).claim("me", False)
    assert untouched(home)


def test_a_folder_that_becomes_a_link_takes_no_rows_and_publishes_none(tmp_path: Path, home: Path) -> None:
    output = tmp_path / "out"
    sink = sink_in(output)
    sink.claim("me", False)
    writer = sink.writer(TASK, Attempt(1))
    writer.write(ROWS)
    handle = writer.seal(Epoch(1), "one").finish()
    assert handle is not None
    (output / "_staging" / "me").rename(output / "_staging" / "aside")
    (output / "_staging" / "me").symlink_to(home)
    writer.write(ROWS)
    with pytest.raises(StorageError, match="_staging/me, which is a link"):
        writer.seal(Epoch(2), "two").finish()
    with pytest.raises(StateError, match="_staging/me, which is a link"):
        sink.publisher.publish(handle, Epoch(1))
    assert untouched(home)
    writer.close()
    sink.close()


def test_a_staged_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    link = tmp_path / "1-out-x.part"
    link.symlink_to(target)
    with pytest.raises(PenstockError):
        stage(OS_FILES, link, parquet_form(SCHEMA), [ROWS])
    assert target.read_text() == "mine"


@pytest.mark.parametrize("planted", ["pipe", "link", "endless"])
def test_an_owner_file_that_is_none_holds_nobody_up(tmp_path: Path, planted: str) -> None:
    output = tmp_path / "out"
    (output / "_staging").mkdir(parents=True)
    plant(output / "_staging" / "OWNER.json", planted)
    with pytest.raises(ConfigError, match=r"OWNER\.json"):
        sink_in(output).claim("me", False)
    assert published.mark_of(output, "parquet") is None


def test_the_command_line_takes_a_linked_staging_folder_for_anothers(tmp_path: Path) -> None:
    output, theirs = tmp_path / "out", tmp_path / "theirs"
    output.mkdir()
    theirs.mkdir()
    (theirs / "OWNER.json").write_text(json.dumps({"job_uid": "me"}))
    (theirs / "1-out-x.part").write_text("theirs")
    (output / "_staging").symlink_to(theirs)
    assert published.own_files(output, "parquet", "out", JobUid("me")) is None


def plant(place: Path, what: str) -> None:
    match what:
        case "pipe":
            os.mkfifo(place)
        case "link":
            place.symlink_to("/etc/hostname")
        case "endless":
            place.symlink_to("/dev/zero")


@pytest.mark.parametrize("planted", ["pipe", "link", "endless"])
def test_a_sender_reads_no_announcement_and_no_note_but_plain_files(tmp_path: Path, planted: str) -> None:
    plant(tmp_path / f"evil{SUFFIX}", planted)
    assert read_announcements(tmp_path) == []
    note = finished_note(tmp_path, 3)
    plant(note, planted)
    with pytest.raises(ConfigError, match="is a link or no plain file"):
        read_note(note)


def test_a_note_is_not_written_through_a_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    note = finished_note(tmp_path, 3)
    assert read_note(note) == ""
    note.symlink_to(target)
    write_note(note, "life", 20)
    assert target.read_text() == "mine"
    assert read_note(note) == "20"
