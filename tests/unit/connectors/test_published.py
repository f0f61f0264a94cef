"""Whose files are in an output folder: by the owner mark and by their names."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.connectors.discard_sink import DiscardSink, DiscardSpec
from penstock.connectors.file_sink import ParquetSink
from penstock.connectors.published import mark_of, own_files, own_staging
from penstock.contract.ids import Attempt, Epoch, Ordinal, StageIndex, TaskId

TASK = TaskId(StageIndex(1), Ordinal(0), 0)
ROWS = pa.record_batch({"n": pa.array([1, 2], pa.int64())})


def write(sink: ParquetSink | DiscardSink, epoch: int) -> None:
    """Publish two rows as the job ``mine``."""
    sink.claim("mine", fresh=True)
    writer = sink.writer(TASK, Attempt(1))
    writer.write(ROWS)
    handle = writer.seal(Epoch(epoch), "x").finish()
    assert handle is not None
    sink.publisher.publish(handle, Epoch(epoch))
    sink.close()


@pytest.mark.parametrize("step", ["output", "my sink/2"])
def test_what_the_sinks_publish_and_stage_is_found_as_their_own(tmp_path: Path, step: str) -> None:
    write(ParquetSink(step, str(tmp_path), ROWS.schema), 7)
    (tmp_path / "notes.parquet").touch()
    (tmp_path / "000000000007-other-001.0000.0000-000001-0000.parquet").touch()
    found = own_files(tmp_path, "parquet", step, "mine")
    assert found is not None
    assert [f.name[:13] for f in found] == ["000000000007-"]
    assert len(own_staging(tmp_path, step, "mine")) == 1
    assert own_files(tmp_path, "parquet", step, "theirs") is None


def test_reports_of_a_discard_sink_are_found(tmp_path: Path) -> None:
    write(DiscardSink("output", ROWS.schema, DiscardSpec(report=str(tmp_path))), 3)
    found = own_files(tmp_path, "discard", "output", "mine")
    assert found is not None
    assert [f.suffix for f in found] == [".json"]
    assert own_files(tmp_path, "discard", "output", "theirs") is None


def test_files_of_the_job_before_are_not_own(tmp_path: Path) -> None:
    write(ParquetSink("output", str(tmp_path), ROWS.schema), 7)
    mark = tmp_path / "_staging" / "OWNER.json"
    mark.write_text(json.dumps({"job_uid": "mine", "after": {"job_uid": "old", "epoch": 7}}))
    assert own_files(tmp_path, "parquet", "output", "mine") == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"job_uid": "a", "after": 3}'])
def test_an_unreadable_owner_file_means_no_owner(tmp_path: Path, text: str) -> None:
    (tmp_path / "_staging").mkdir()
    assert mark_of(tmp_path, "parquet") is None
    (tmp_path / "_staging" / "OWNER.json").write_text(text)
    assert mark_of(tmp_path, "parquet") is None
