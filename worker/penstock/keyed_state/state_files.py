"""The files of a snapshot: their blocks, how a cut writes them, and how they are opened and loaded again.

A state file is Arrow blocks, each sorted by key group, followed by an index of the blocks::

    magic | block | block | ... | index: place, size, first and last key group of each | end, magic

A block is an Arrow IPC stream of up to ``BLOCK_ROWS`` rows and about ``STATE_BLOCK_BYTES_MAX`` of
them, sorted by key group and compressed by LZ4: ``group, deleted, hash, key`` and one column for each
value. Blocks are in the order in which rows were copied: a few hundred thousand rows are sorted at a
time. The blob store checks length and SHA-256, which does not show who wrote the file: the folder may
be shared. So the sizes of a block are read before it is decompressed, and its values are validated
before a kernel reads them.

The same sizes say how much memory the rows of a key group take. Files are merged by ranges of key
groups (slabs) whose rows have ``STATE_MERGE_BYTES_MAX`` together: LZ4 makes some states a hundredth of
their size, so the size of a file says nothing about memory. Small blocks span few key groups where
rows are large, so that few blocks are read for more than one slab.

Files are not SST files of RocksDB, as they once were: its writer holds the interpreter lock while
it compresses, writes and syncs, which stops every other thread of the engine (docs/decisions/).

The metadata of each block has the schema of the state. Blocks of another schema than the reader's are read if the
state evolves (``stored_schema``). The files that have them are outdated: the next cut merges them to one file of the
reader's schema, key groups after key groups. So all files that a manifest lists have the schemas that it says, and a
later job need not know more than the last change.

A snapshot is written off the task's thread, from values that the cut has copied; many small files
are merged. Files are written on local disk and then stored in the blob store under names from the
caller, who uses each name once. Files written for an epoch that aborts are never listed: the next
cut starts from the committed entries.
"""

import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.errors import PeerError, StateError, StorageError
from penstock.base.limits import STATE_BLOCK_BYTES_MAX, STATE_FILES_PER_TASK_MAX, STATE_MERGE_BYTES_MAX
from penstock.base.threads import Event, monotonic
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Share, groups_of, intersect, to_share
from penstock.contract.manifest import StateFile
from penstock.keyed_state.copies import CutRows, RowsCopy, by_group
from penstock.keyed_state.hot import HotTable
from penstock.keyed_state.stored_schema import (
    FRAME,
    META,
    VALUE,
    check_schema,
    described,
    loadable,
    stored_schema,
)
from penstock.model import ipc
from penstock.model.arrays import Bytes, fixed, pack_validity
from penstock.model.ipc import validate
from penstock.model.keys import Keys
from penstock.model.table_columns import BYTES
from penstock.protocol.state_entries import (
    Files,
    drops_tombstones,
    groups_of_files,
    in_order,
    next_order,
    through_last,
    to_merge,
)
from penstock.steps.base import StateSchema

if TYPE_CHECKING:
    from penstock.ports import BlobStore

BLOCK_ROWS = 32_768
_MAGIC = b"PENSTK\0\2"
_ENTRY = struct.Struct("<QQHH")
_END = struct.Struct("<QQ8s")
# No threads of Arrow: the caller bounds the time of its own thread.
_WRITE = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_READ = pa.ipc.IpcReadOptions(use_threads=False)
_ROW_BYTES = 64  # of a row in a table in memory, beside its key and values
_COPIED_SHARE = 4  # a quarter of the rows that are merged at once is copied at once
REST_MAX_S = 0.1  # a longer write was waiting for the disk, not working
SUFFIX = ".state"
Block = TypeVar("Block")
Naming = Callable[[str], BlobName]


def write_file(
    path: Path,
    schema: StateSchema,
    max_key_groups: int,
    parts: Iterator[RowsCopy],
    expedite: Event,
) -> int:
    """Write copies of rows, at half speed until ``expedite`` is set; return the number of rows.

    Raises StorageError when the disk is full or fails.
    """
    meta = {META: described(schema, max_key_groups)}
    blocks = (block for part in parts for block in by_group(part, _block_rows(part)))
    index: list[bytes] = []
    rows, at = 0, len(_MAGIC)
    try:
        with path.open("xb") as file:
            file.write(_MAGIC)
            for block in at_half_speed(blocks, expedite):
                data = _encoded(_batch(block, schema).replace_schema_metadata(meta))
                index.append(_ENTRY.pack(at, data.size, block.groups[0], block.groups[-1]))
                at += file.write(data)
                rows += len(block.groups)
            file.write(b"".join(index) + _END.pack(at, len(index), _MAGIC))
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror or error}") from error
    return rows


def _block_rows(part: RowsCopy) -> int:
    """Return how many rows of a part make a block: fewer where rows are large."""
    row_bytes = 1 + part.size_bytes // max(len(part.groups), 1)
    return min(BLOCK_ROWS, max(STATE_BLOCK_BYTES_MAX // row_bytes, 1))


def at_half_speed(blocks: Iterable[Block], expedite: Event) -> Iterator[Block]:
    """Before each block but the first, rest as long as the block before it took (REST_MAX_S)."""
    since: float | None = None
    for block in blocks:
        if since is not None:
            expedite.wait(min(monotonic() - since, REST_MAX_S))
        since = monotonic()
        yield block


def _encoded(block: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, block.schema, options=_WRITE) as stream:
        stream.write_batch(block)
    return sink.getvalue()


def _batch(part: RowsCopy, schema: StateSchema) -> pa.RecordBatch:
    """Make a batch of copied rows; only flags are copied again."""
    columns = {
        "group": pa.array(part.groups),
        "deleted": pa.array(part.deleted),
        "hash": pa.array(part.hashes),
        "key": _binary(part.keys.ends, part.keys.data, part.keys.null),
    }
    for value in schema.stored:
        given = part.values[value.name]
        columns[VALUE + value.name] = _binary(*given) if value.dtype == BYTES else _plain(given)
    return pa.RecordBatch.from_pydict(columns)


def _binary(ends: npt.NDArray[np.int64], data: Bytes, null: npt.NDArray[np.bool_]) -> pa.Array:
    bitmap = pack_validity(~null)
    buffers = [bitmap, pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(null), buffers)


def _plain(values: npt.NDArray[Any]) -> pa.Array:
    if values.ndim == 1:
        return pa.array(values)
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])


class Loadable(Protocol):
    """A table that state files are loaded into."""

    schema: StateSchema

    def loading(self) -> AbstractContextManager[None]:
        """Treat rows that are loaded inside the ``with`` block as committed."""
        ...

    def load(self, keys: Keys, deleted: npt.NDArray[np.bool_], values: dict[str, Any]) -> None:
        """Load rows; of several loads of a key the last one counts."""
        ...


class BlockReader:
    """Reads one state file that lies on local disk."""

    def __init__(self, path: Path, origin: str) -> None:
        """Map ``path``; ``origin`` names file and epoch in errors.

        Raises StateError when it is not a state file, StorageError when it cannot be opened now.
        """
        self._origin = origin
        try:
            with pa.memory_map(str(path)) as file:
                self._data = file.read_buffer()
        except OSError as error:
            raise StorageError(f"{origin}: {path} cannot be opened: {error}") from error
        self._index = _index(self._data, origin)

    def blocks(self, share: Share) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``share``, block by block."""
        for place, size, first, last in self._index:
            if any(r.start <= last and first < r.stop for r in share):
                block = _read_block(self._data.slice(place, size), self._origin)
                if not any(r.start <= first and last < r.stop for r in share):
                    block = _narrowed(block, share)
                if block.num_rows:
                    yield block

    def group_bytes(self, share: Share, max_key_groups: int) -> npt.NDArray[np.float64]:
        """Return about how many bytes of memory the rows of each key group take, 0 outside ``share``.

        Reads no rows: a block says its size, which counts for all its groups alike. Raises StateError.
        """
        found, shown = np.zeros(max_key_groups), flags(share, max_key_groups)
        for place, size, first, last in self._index:
            if not first <= last < max_key_groups:
                raise StateError(f"{self._origin}: a block of the key groups {first} to {last} of {max_key_groups}")
            if shown[first : last + 1].any():
                rows = _rows_of(self._data.slice(place, size), self._origin)
                found[first : last + 1] += (rows.size + rows.rows * _ROW_BYTES) / (last + 1 - first)
        return found * shown

    def load(self, share: Share, table: Loadable, max_key_groups: int) -> bool:
        """Load the rows of ``share`` into a table that is being loaded. Raises StateError.

        Returns whether the rows have the schema of the table already.
        """
        wanted, same = described(table.schema, max_key_groups), True
        for block in self.blocks(share):
            stored = check_schema(block, table.schema, max_key_groups, self._origin)
            table.load(*loadable(block, table.schema, stored))
            same = same and stored_schema(block) == wanted
        return same


def _index(data: pa.Buffer, origin: str) -> list[tuple[int, int, int, int]]:
    """Return place, size, first and last key group of each block."""
    end = data.size - _END.size
    place, count, magic = _END.unpack(data.slice(end)) if end > 0 else (0, 0, b"")
    if magic != _MAGIC or place + count * _ENTRY.size != end:
        raise StateError(f"{origin}: is no state file of this version of Penstock")
    return list(_ENTRY.iter_unpack(data.slice(place, end - place)))


def _rows_of(value: pa.Buffer, origin: str) -> ipc.Sizes:
    """Return the sizes of the rows of one block, which are not read. Raises StateError when it is no block."""
    try:
        sizes = list(ipc.stream_sizes(value))
        if [s.kind for s in sizes] != [ipc.SCHEMA, ipc.ROWS]:
            raise StateError(f"{origin}: {len(sizes)} messages where a schema and one block were")
        ipc.check(sizes[1], ipc.LZ4_RATIO_MAX * value.size, BLOCK_ROWS)
    except (PeerError, *ipc.READ_ERRORS) as error:
        raise StateError(f"{origin}: a block cannot be read: {error}") from error
    return sizes[1]


def _read_block(value: pa.Buffer, origin: str) -> pa.RecordBatch:
    """Read one block. Raises StateError when it is no block, or unsafe for a kernel."""
    _rows_of(value, origin)
    try:
        block = pa.ipc.open_stream(value, options=_READ).read_next_batch()
        validate(block)
        names, types = block.schema.names, block.schema.types
    except (PeerError, *ipc.READ_ERRORS) as error:
        raise StateError(f"{origin}: a block cannot be read: {error}") from error
    if dict(zip(names[: len(FRAME)], types, strict=False)) != FRAME:
        raise StateError(f"{origin}: a block of {names} is none of a state file")
    return block


def _narrowed(block: pa.RecordBatch, share: Share) -> pa.RecordBatch:
    groups = fixed(block.column("group"), np.uint16)
    mask = np.zeros(len(groups), np.bool_)
    for r in share:
        mask |= (groups >= r.start) & (groups < r.stop)
    return block.filter(pa.array(mask))


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A state file on local disk, of rows that were committed in another form."""

    path: Path
    state: str
    groups: Share
    rows: int


@dataclass(slots=True)
class StateSnapshot:
    """The state of a task at a barrier: copied changes, and the state files they add to.

    With ``merges`` many small files are merged to one. Files that are ``outdated`` have another schema: they are
    always merged. Those that are ``migrated`` are stored, and come before the changes. The changes are written at half
    speed until ``expedite`` is set. :meth:`write` uses up the copies and sets ``listing``, the state files that
    the epoch's manifest lists.
    """

    epoch: Epoch
    share: Share
    max_key_groups: int
    base: Files
    changes: tuple[tuple[StateSchema, CutRows], ...]
    scratch: Path | None = None
    merges: bool = True
    outdated: frozenset[BlobName] = frozenset()
    migrated: tuple[LocalFile, ...] = ()
    expedite: Event = field(default_factory=Event)
    listing: Files | None = field(default=None)

    def write(self, naming: Naming, blobs: "BlobStore") -> Files:
        """Write the changes of every state, merge where there are many files; return all files.

        A state that was cut whole keeps no older file.

        Raises StorageError (the epoch aborts) or StateError (a committed file cannot be read).
        """
        listing: list[StateFile] = []
        order = next_order(self.base)
        newest = order + 1 if self.migrated else order
        with tempfile.TemporaryDirectory(prefix="penstock-cut-", dir=self.scratch) as folder:
            files = SnapshotFiles(self, Path(folder), naming, blobs)
            for schema, rows in self.changes:
                changed = rows.groups()
                own = tuple(f for f in self.base if f.state == schema.name and not rows.whole)
                listing += files.merged(schema, own)
                if not rows.whole:
                    listing += files.migrated(schema.name, order)
                if changed:
                    groups = to_share({*groups_of(self.share), *changed})
                    listing.append(files.store(schema, rows.parts(), newest, groups, expedite=self.expedite))
        self.listing = in_order(listing)
        return self.listing


@dataclass(slots=True)
class SnapshotFiles:
    """Writes the files of one cut in ``folder``, a scratch folder that only it uses."""

    cut: StateSnapshot
    folder: Path
    naming: Naming
    blobs: "BlobStore"
    _count: int = 0

    def store(
        self,
        schema: StateSchema,
        parts: Iterator[RowsCopy],
        order: int,
        groups: Share,
        *,
        expedite: Event,
    ) -> StateFile:
        """Write one file and put it into the blob store."""
        path = self._new_path()
        rows = write_file(path, schema, self.cut.max_key_groups, parts, expedite)
        blob = self.blobs.put_file(self.naming(SUFFIX), str(path))
        path.unlink()
        return StateFile(blob, schema.name, groups, order, self.cut.epoch, rows)

    def migrated(self, state: str, order: int) -> Iterator[StateFile]:
        """Put the migrated files of one state into the blob store."""
        for file in self.cut.migrated:
            groups = intersect(file.groups, self.cut.share)
            if file.state == state and groups:
                blob = self.blobs.put_file(self.naming(SUFFIX), str(file.path))
                yield StateFile(blob, state, groups, order, self.cut.epoch, file.rows)

    def merged(self, schema: StateSchema, files: Files) -> Files:
        """Return the files of one state. The outdated ones are merged to one; when there are many, the newest are."""
        chosen = through_last(files, self.cut.outdated)
        if not chosen and self.cut.merges:
            chosen = to_merge(files, STATE_FILES_PER_TASK_MAX)
        if not chosen:
            return files
        left = tuple(f for f in files if f not in chosen)
        keep_tombstones = not drops_tombstones(chosen, files)
        groups = groups_of_files(chosen)
        with ExitStack() as stack:
            readers = [(f.groups, stack.enter_context(self._open(f)).reader) for f in chosen]
            parts = self._parts(schema, readers, groups, keep_tombstones)
            first = next(parts, None)
            if first is None:  # all keys are deleted
                return left
            again = _chained(first, parts)
            order = max(f.order for f in chosen)
            return (*left, self.store(schema, again, order, groups, expedite=no_rest()))

    def _parts(
        self,
        schema: StateSchema,
        readers: Sequence[tuple[Share, BlockReader]],
        groups: Share,
        keep_tombstones: bool,
    ) -> Iterator[RowsCopy]:
        """Merge one range of key groups (slab) at a time, so that only one slab is in memory.

        The rows of a slab are copied in parts, in the order of key groups.
        """
        for slab in slabs(readers, groups, self.cut.max_key_groups):
            table = HotTable(schema)
            for shown, reader in readers:
                visible = to_share(set(groups_of(shown)) & set(groups_of(slab)))
                reader.load(visible, table, self.cut.max_key_groups)
            rows = table.by_group(table.all_rows(tombstones=keep_tombstones))
            row_bytes = 1 + table.size_bytes // max(table.high_row, 1)
            most = max(STATE_MERGE_BYTES_MAX // _COPIED_SHARE // row_bytes, 1)
            for first in range(0, len(rows), most):
                yield table.copy_rows(rows[first : first + most])

    def _open(self, file: StateFile) -> "OpenFile":
        return OpenFile(file, self._new_path(), self.blobs)

    def _new_path(self) -> Path:
        self._count += 1
        return self.folder / f"{self._count}.state"


class OpenFile:
    """A listed file that is fetched, checked by its hash and open for reading; a context manager."""

    def __init__(self, file: StateFile, path: Path, blobs: "BlobStore") -> None:
        """Fetch ``file`` to ``path``. Raises StateError, with file and epoch, when it is altered."""
        origin = f"state file {file.blob.name} (state {file.state!r}, epoch {file.epoch})"
        try:
            blobs.fetch(file.blob, str(path))
        except StateError as error:
            raise StateError(f"{origin}: {error}") from error
        self._path = path
        self.reader = BlockReader(path, origin)

    def __enter__(self) -> "OpenFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the local copy."""
        self._path.unlink(missing_ok=True)


class Fetched:
    """State files that are fetched, checked and open: the slow part of loading, done in advance.

    Any thread may make it; one thread loads it. The caller must ``close`` it, loaded or not.
    """

    def __init__(
        self,
        files: Sequence[StateFile],
        blobs: "BlobStore",
        scratch: Path | None,
        migrated: frozenset[str] = frozenset(),
    ) -> None:
        """Fetch ``files`` to a folder in ``scratch`` (None: the system's temporary folder).

        Those of the steps ``migrated`` hold an earlier state. Raises StateError naming file and epoch when one is
        altered or missing.
        """
        self.files = in_order(files)
        self.migrated = migrated
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-load-", dir=scratch)
        self._open: list[OpenFile] = []
        try:
            for number, file in enumerate(self.files):
                path = Path(self._folder.name) / f"{number}.state"
                self._open.append(OpenFile(file, path, blobs))
        except BaseException:
            self.close()
            raise

    def load(self, table: Loadable, state: str, max_key_groups: int, share: Share | None = None) -> set[BlobName]:
        """Load the files of one state in order, each for its listed groups, or those in ``share``. Raises StateError.

        Returns the names of those that are outdated: their rows had another schema.
        """
        outdated = set()
        with table.loading():
            for file, opened in zip(self.files, self._open, strict=True):
                groups = file.groups if share is None else intersect(file.groups, share)
                if file.state == state and not opened.reader.load(groups, table, max_key_groups):
                    outdated.add(file.blob.name)
        return outdated

    def slabs(self, step: str, share: Share, max_key_groups: int) -> list[Share]:
        """Divide key groups into ranges for which the files of a step, those of its child tables too, fit in memory."""
        pairs = zip(self.files, self._open, strict=True)
        return slabs([(f.groups, opened.reader) for f, opened in pairs if f.step == step], share, max_key_groups)

    def close(self) -> None:
        """Close and remove the local copies; idempotent."""
        for opened in self._open:
            opened.close()
        self._open.clear()
        self._folder.cleanup()


def slabs(readers: Iterable[tuple[Share, BlockReader]], groups: Share, max_key_groups: int) -> list[Share]:
    """Divide key groups into ranges whose rows have at most ``STATE_MERGE_BYTES_MAX``, or are one group.

    A reader is given with the groups that it shows. Raises StateError.
    """
    sizes = np.zeros(max_key_groups)
    for shown, reader in readers:
        sizes += reader.group_bytes(intersect(shown, groups), max_key_groups)
    found: list[list[int]] = []
    size = 0.0
    for group in groups_of(groups):
        size += sizes[group]
        if not found or size > STATE_MERGE_BYTES_MAX:
            found.append([])
            size = sizes[group]
        found[-1].append(group)
    return [to_share(part) for part in found]


def no_rest() -> Event:
    """Return an event that is set: a merge never rests, or it may not end before the next failure."""
    expedited = Event()
    expedited.set()
    return expedited


def _chained(first: RowsCopy, rest: Iterator[RowsCopy]) -> Iterator[RowsCopy]:
    yield first
    yield from rest


def flags(share: Share, max_key_groups: int) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    """Return one byte per key group: 1 where the share has it."""
    found = np.zeros(max_key_groups, np.uint8)
    for r in share:
        found[r.start : r.stop] = 1
    return found
