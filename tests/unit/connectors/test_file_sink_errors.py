"""A sink on a disk whose calls fail: the rows of a cut that failed are in the next cut."""

import errno
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.base.errors import ConfigError, ConnectorError, StorageError, is_storage_away
from penstock.connectors.file_output import parquet_form, stage
from penstock.connectors.file_sink import ParquetSink
from penstock.contract.ids import Attempt, Epoch, Ordinal, StageIndex, TaskId
from penstock.file_system import OS_FILES, REPLACED_FILE, closing
from sim.files.call_hooks import FileCall
from sim.files.mounted_files import Mount, MountedFiles
from sim.files.virtual_disk import VirtualDisk, os_error

SCHEMA = pa.schema([("word", pa.string())])
TASK = TaskId(StageIndex(1), Ordinal(0), 0)


class Failing:
    """Refuses the calls of one name with an error, while it is told to."""

    def __init__(self) -> None:
        self.refused = ("", 0)

    def before(self, call: FileCall) -> None:
        if call.name == self.refused[0]:
            raise os_error(self.refused[1], call.path)

    def after(self, call: FileCall) -> None:
        pass


@pytest.fixture
def disk() -> VirtualDisk:
    return VirtualDisk()


@pytest.fixture
def failing() -> Failing:
    return Failing()


@pytest.fixture
def sink(disk: VirtualDisk, failing: Failing) -> Iterator[ParquetSink]:
    made = ParquetSink("out", "/o", SCHEMA, MountedFiles(disk, Mount("m"), failing))
    made.claim("job-1", fresh=True)
    yield made
    made.close()


@pytest.mark.parametrize("call", ["stat", "open", "write", "fsync"])
@pytest.mark.parametrize("code", [errno.ESTALE, errno.EIO, errno.ENOSPC])
def test_rows_of_a_cut_that_failed_are_in_the_next_cut(
    sink: ParquetSink, failing: Failing, disk: VirtualDisk, call: str, code: int
) -> None:
    writer = sink.writer(TASK, Attempt(1))
    writer.write(pa.record_batch({"word": ["a"]}, SCHEMA))
    first = writer.seal(Epoch(1), "name")
    failing.refused = (call, code)
    with pytest.raises(StorageError):
        first.finish()
    failing.refused = ("", 0)
    writer.write(pa.record_batch({"word": ["b"]}, SCHEMA))
    handle = writer.seal(Epoch(2), "name").finish()
    assert handle is not None
    assert handle.rows == 2
    sink.publisher.publish(handle, Epoch(2))
    found = [
        pq.read_table(pa.BufferReader(c))
        for p, c in sorted(disk.contents("/o").items())
        if Path(p).parent == Path("/o")
    ]
    assert [word for table in found for word in table["word"].to_pylist()] == ["a", "b"]


class Quicker:
    """Takes the output folder for another worker of the job, just before this one makes it."""

    def __init__(self, disk: VirtualDisk) -> None:
        self._files = MountedFiles(disk, Mount("quicker", network=True))

    def before(self, call: FileCall) -> None:
        if (call.name, call.path) == ("mkdir", "/o"):
            take(self._files)

    def after(self, call: FileCall) -> None:
        pass


def test_two_workers_make_the_folder_on_a_network_volume_at_once(disk: VirtualDisk) -> None:
    take(MountedFiles(disk, Mount("slower", network=True, staleness=1.0), Quicker(disk)))


def take(files: MountedFiles) -> None:
    sink = ParquetSink("out", "/o", SCHEMA, files)
    sink.claim("job-1", fresh=True)
    sink.close()


def test_a_type_that_parquet_has_not_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"parquet sink: column 'odd' is decimal128\(5, -2\), which Parquet has not"):
        parquet_form(pa.schema([("odd", pa.decimal128(5, -2))]))


def test_rows_that_arrow_cannot_write_are_not_tried_without_an_end(tmp_path: Path) -> None:
    rows = pa.record_batch({"at": pa.array([2**62], pa.timestamp("s"))})
    with pytest.raises(ConnectorError, match="cannot stage") as told:
        stage(OS_FILES, tmp_path / "failed", parquet_form(rows.schema), [rows])
    assert not is_storage_away(told.value)


class FailsAt:
    """The files of the machine. One write fails."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __getattr__(self, name: str) -> Any:
        return getattr(OS_FILES, name)

    def write(self, file: int, data: Any) -> int:
        self.left -= 1
        if not self.left:
            raise OSError(errno.ENOSPC, "no space")
        return OS_FILES.write(file, data)


@pytest.mark.parametrize("at", range(1, 9))
def test_a_file_that_failed_writes_nothing_into_the_next_file(tmp_path: Path, at: int) -> None:
    files: Any = FailsAt(at)
    rows = pa.record_batch({"number": list(range(1000)), "word": ["a"] * 1000})
    with pytest.raises(StorageError, match="no space") as caught:
        stage(files, tmp_path / "failed", parquet_form(rows.schema), [rows])
    with closing(OS_FILES, OS_FILES.open(tmp_path / "next", REPLACED_FILE)) as file:
        OS_FILES.write(file, b"mine")
        assert is_storage_away(caught.value)
        del caught  # the error holds Arrow's writer, which writes the footer when it is destroyed
        gc.collect()
    assert (tmp_path / "next").read_bytes() == b"mine"
