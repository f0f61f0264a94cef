"""What happens to a Parquet sink between two of its own calls: a sweep, another worker, another job."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.base.errors import PenstockError, StateError, StorageError
from penstock.connectors.file_sink import ParquetSink
from penstock.contract.ids import Attempt, Epoch, Ordinal, StageIndex, TaskId
from penstock.contract.manifest import SinkHandle
from penstock.file_system import OsFileSystem
from penstock.ports import FolderEntry

SCHEMA = pa.schema([("word", pa.string())])
TASKS = tuple(TaskId(StageIndex(1), Ordinal(worker), 0) for worker in (0, 1))
Place = str | Path | int


class Files(OsFileSystem):
    """The files of this machine. Before the first call of a kind with a path that ends so, something happens."""

    def __init__(self) -> None:
        self.before: dict[tuple[str, str], Callable[[], object]] = {}
        self.synced: list[str] = []

    def _meet(self, call: str, place: Place) -> None:
        for key in [k for k in self.before if k[0] == call and str(place).endswith(k[1])]:
            self.before.pop(key)()

    def open(self, path: str | Path, flags: int, mode: int = 0o666, *, within: int | None = None) -> int:
        self._meet("open", path)
        return super().open(path, flags, mode, within=within)

    def link(self, source: str | Path, target: str | Path, *, within: int | None = None) -> None:
        self._meet("link", source)
        super().link(source, target, within=within)

    def rename(self, source: str | Path, target: str | Path) -> None:
        self._meet("rename", target)
        super().rename(source, target)

    def entries(self, folder: Place) -> list[FolderEntry]:
        self._meet("entries", folder)
        return super().entries(folder)

    def fsync(self, handle: int) -> None:
        self.synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        super().fsync(handle)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[[str, Files], ParquetSink]]:
    sinks: list[ParquetSink] = []

    def make(job: str, files: Files) -> ParquetSink:
        sinks.append(ParquetSink("out", str(tmp_path / "o"), SCHEMA, files))
        if job == "job-1":
            sinks[-1].claim(job, fresh=False)
        else:
            sinks[-1].inherit(job, "job-1", Epoch(40))
        return sinks[-1]

    yield make
    for sink in sinks:
        sink.close()


Make = Callable[[str, Files], ParquetSink]


def prepare(sink: ParquetSink, epoch: int, word: str, task: TaskId = TASKS[0]) -> SinkHandle:
    writer = sink.writer(task, Attempt(1))
    writer.write(pa.record_batch({"word": [word]}))
    handle = writer.seal(Epoch(epoch), "name").finish()
    assert handle is not None
    return handle


def words(folder: Path) -> list[str]:
    files = sorted((folder / "o").glob("*.parquet"))
    return [word for file in files for word in pq.read_table(file)["word"].to_pylist()]


def test_a_file_that_is_made_behind_the_sweep_is_removed_by_its_maker(made: Make, tmp_path: Path) -> None:
    files = Files()
    sink = made("job-1", files)
    files.before["open", ".part"] = lambda: sink.sweep(Attempt(2))
    with pytest.raises(StorageError, match="attempt 1 is over"):
        prepare(sink, 1, "a")
    assert not list((tmp_path / "o").rglob("*.part"))


def test_a_torn_staged_file_is_not_published(made: Make, tmp_path: Path) -> None:
    sink = made("job-1", Files())
    handle = prepare(sink, 1, "a")
    (part,) = (tmp_path / "o").rglob("*.part")
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(StateError, match="is not the one committed"):
        sink.publisher.publish(handle, Epoch(1))
    assert words(tmp_path) == []


def test_two_workers_of_a_child_publish_their_first_epoch_at_once(made: Make, tmp_path: Path) -> None:
    parent = made("job-1", Files())
    parent.publisher.publish(prepare(parent, 40, "parent"), Epoch(40))
    files = Files()
    first, second = made("job-2", files), made("job-2", Files())
    mine, other = prepare(first, 42, "mine"), prepare(second, 42, "other", TASKS[1])
    files.before["entries", "/o"] = lambda: second.publisher.publish(other, Epoch(42))
    first.publisher.publish(mine, Epoch(42))
    assert sorted(words(tmp_path)) == ["mine", "other", "parent"]


def test_a_parent_that_was_about_to_link_finds_its_file_moved_away(made: Make, tmp_path: Path) -> None:
    files = Files()
    parent = made("job-1", files)
    parent.publisher.publish(prepare(parent, 40, "parent"), Epoch(40))
    late = prepare(parent, 41, "late")
    files.before["link", ".part"] = lambda: made("job-2", Files())
    with pytest.raises(PenstockError):
        parent.publisher.publish(late, Epoch(41))
    assert words(tmp_path) == ["parent"]


def test_an_owner_that_gives_a_folder_back_leaves_it_durably(made: Make, tmp_path: Path) -> None:
    parent = made("job-1", Files())
    parent.publisher.publish(prepare(parent, 40, "parent"), Epoch(40))
    late = prepare(parent, 41, "late")
    files = Files()
    files.before["rename", "OWNER.json"] = lambda: parent.publisher.publish(late, Epoch(41))
    with pytest.raises(PenstockError, match="epoch 41"):
        made("job-2", files)
    owner = [path for path in files.synced if "OWNER.json." in path][-1]
    after = files.synced[len(files.synced) - files.synced[::-1].index(owner) :]
    assert after == [str(tmp_path / "o" / "_staging")], "the name behind the content"
