"""Files of rows that LZ4 makes a hundredth of their size: what their merge takes, and how they are divided."""

import itertools
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.base.errors import StateError
from penstock.base.limits import STATE_BLOCK_BYTES_MAX, STATE_FILES_PER_TASK_MAX, STATE_MERGE_BYTES_MAX
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Range, Share, groups_of
from penstock.contract.manifest import StateFile
from penstock.contract.settings import StateSettings
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.keyed_state.state_files import Fetched, OpenFile, StateSnapshot, slabs
from penstock.model.keys import KeyCodec
from penstock.model.table_columns import BYTES, Value
from penstock.steps.base import StateSchema
from penstock.storage.blobs import DirectoryBlobStore

GROUPS = 64
ALL: Share = (Range(0, GROUPS),)
CODEC = KeyCodec((pa.string(),), GROUPS)
SCHEMA = StateSchema("seen", (("word", pa.string()),), (Value("text", BYTES),))
LARGE = 2500  # rows of each file but the first
TEXT_BYTES = 2000
NUMBERS = itertools.count()
NAME = "1-1-life-{}{}"


@dataclass
class Merging:
    """A state whose files are merged by ``cut``, which is not written yet."""

    backend: KeyedStateBackend
    blobs: DirectoryBlobStore
    files: tuple[StateFile, ...]
    cut: StateSnapshot

    def write(self) -> tuple[StateFile, ...]:
        self.cut.expedite.set()
        return self.cut.write(name, self.blobs)


def name(suffix: str) -> BlobName:
    return BlobName(NAME.format(next(NUMBERS), suffix))


def text_of(key: str) -> bytes:
    return (key * TEXT_BYTES)[:TEXT_BYTES].encode()


def put(backend: KeyedStateBackend, keys: list[str], *, large: bool) -> None:
    table = backend._tables["seen"]
    rows = table.rows(CODEC.keys([pa.array(keys)]))
    table.write_bytes("text", rows, pa.array([text_of(key) if large else b"" for key in keys], pa.binary()))


@pytest.fixture
def merging(tmp_path: Path) -> Iterator[Merging]:
    backend = KeyedStateBackend(StateSettings(), ALL, GROUPS)
    backend.open(SCHEMA)
    blobs = DirectoryBlobStore(tmp_path)
    put(backend, [f"small {i}" for i in range(200_000)], large=False)  # else a cut would have all rows
    files: tuple[StateFile, ...] = ()
    for epoch in range(1, STATE_FILES_PER_TASK_MAX + 1):
        cut = flipped(backend, epoch)
        files = cut.write(name, blobs)
        backend.committed(Epoch(epoch))
        put(backend, [f"{epoch}-{i}" for i in range(LARGE)], large=True)
    yield Merging(backend, blobs, files, flipped(backend, STATE_FILES_PER_TASK_MAX + 1))
    backend.close()


def flipped(backend: KeyedStateBackend, epoch: int) -> StateSnapshot:
    cut = backend.flip(Epoch(epoch))
    while not backend.copy_on():
        pass
    cut.expedite.set()
    return cut


def rows_bytes(file: StateFile, blobs: DirectoryBlobStore, folder: Path, share: Share = ALL) -> list[int]:
    with OpenFile(file, folder / "x", blobs) as opened:
        return [block.nbytes for block in opened.reader.blocks(share)]


def test_a_merge_copies_few_rows_at_once(merging: Merging, tmp_path: Path) -> None:
    sizes = [sum(rows_bytes(file, merging.blobs, tmp_path)) for file in merging.files]
    assert sum(sizes) > 2 * STATE_MERGE_BYTES_MAX > 10 * sum(file.blob.size for file in merging.files[1:])
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    written = merging.write()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(written) < STATE_FILES_PER_TASK_MAX
    assert peak - before < STATE_MERGE_BYTES_MAX
    assert sum(file.rows for file in written) == 200_000 + STATE_FILES_PER_TASK_MAX * LARGE


def test_a_slab_has_a_bound_of_rows_in_memory(merging: Merging, tmp_path: Path) -> None:
    fetched = Fetched(merging.files, merging.blobs, tmp_path)
    parts = fetched.slabs("seen", ALL, GROUPS)
    fetched.close()
    assert [group for part in parts for group in groups_of(part)] == list(range(GROUPS))
    sizes = [sum(sum(rows_bytes(f, merging.blobs, tmp_path, part)) for f in merging.files) for part in parts]
    assert len(parts) > 2
    assert max(sizes) < 1.2 * STATE_MERGE_BYTES_MAX, "keys are not spread quite evenly"


def test_a_slab_has_one_group_at_least_and_only_those_that_are_asked_for(merging: Merging, tmp_path: Path) -> None:
    with OpenFile(merging.files[1], tmp_path / "x", merging.blobs) as opened:
        shown = [((Range(3, 5),), opened.reader)] * 1000
        assert slabs(shown, (Range(2, 6),), GROUPS) == [(Range(2, 3),), (Range(3, 4),), (Range(4, 5),), (Range(5, 6),)]
        assert slabs(shown, (Range(8, 20),), GROUPS) == [(Range(8, 20),)]


def test_blocks_of_large_rows_are_small(merging: Merging, tmp_path: Path) -> None:
    found = rows_bytes(merging.files[1], merging.blobs, tmp_path)
    assert len(found) == LARGE * TEXT_BYTES // STATE_BLOCK_BYTES_MAX + 1
    assert max(found) < 1.1 * STATE_BLOCK_BYTES_MAX


def test_a_block_of_groups_that_there_are_not_is_refused(merging: Merging, tmp_path: Path) -> None:
    with (
        OpenFile(merging.files[1], tmp_path / "x", merging.blobs) as opened,
        pytest.raises(StateError, match=r"epoch 2.*: a block of the key groups .* of 8"),
    ):
        slabs([(ALL, opened.reader)], ALL, 8)
