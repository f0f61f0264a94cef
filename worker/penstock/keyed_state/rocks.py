"""Rows that do not fit in memory: one RocksDB database per table, read and written in batches.

The database is a local cache: it has no log, it is never restored, and it is deleted with the task.
Checkpoints copy its rows into the same state files as all other rows.

    key    group (16 bits), tag, key bytes; for timed state: group, window end and hash (64 bits
           each, order-preserving), tag, key bytes, which is the order in which rows come due
    value  hash, fixed-width columns, then each bytes column as length plus one (32 bits) and bytes
    dirty  the same keys; value: the generation of the uncommitted change (64 bits)
    timers the timers of these rows, in the order in which they fire: kind of time (8 bits), time and hash
           (64 bits each), field (8 bits), key; no value. Those of a row that has left are stale.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rocksdict import DBCompressionType, Options, Rdict, WriteBatch, WriteOptions

from penstock.contract.graph import TimeKind
from penstock.keyed_state.copies import COPIED_BYTES_MAX, COPIED_ROWS_MAX, RowsCopy
from penstock.model.arrays import Int64s, flat, text
from penstock.model.keys import Keys
from penstock.model.table_columns import BYTES, NO_TIMER
from penstock.steps.base import END, StateSchema

_READ_ROWS = 64  # that are read in one call: any of them may be large
MEMTABLE_BYTES = 8 * 1024 * 1024
_GROUP = struct.Struct(">H")
_TIMED = struct.Struct(">HQQ")
_DUE = struct.Struct(">HQ")  # the beginning of a key of timed state
DUE_BYTES = _DUE.size
_LENGTH = struct.Struct("<I")
_MARK = struct.Struct("<q")
_BIAS = 1 << 63  # maps signed order to unsigned order
_NULL, _VALUE = b"\x00", b"\x01"
_TIMER = struct.Struct(">BQQB")
_KINDS = tuple(TimeKind)


@dataclass(frozen=True, slots=True)
class ColdRow:
    """One stored row."""

    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class ColdTimer:
    """A timer of a row that was on disk when the timer was listed. ``entry`` is its key in the index."""

    time: int
    row: bytes
    entry: bytes


class ColdRows:
    """The database of one table. Every method works on a batch."""

    def __init__(self, folder: Path, schema: StateSchema) -> None:
        """Create the database in ``folder``, which must not exist."""
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        options.set_write_buffer_size(MEMTABLE_BYTES)
        options.set_compression_type(DBCompressionType.lz4())
        unlogged: Any = WriteOptions()
        unlogged.disable_wal = True  # a cache: it is never restored
        self._schema = schema
        self._values: Any = Rdict(str(folder), options)
        self._dirty: Any = self._values.create_column_family("dirty", options)
        self._dirty_handle = self._values.get_column_family_handle("dirty")
        self._timers: Any = self._values.create_column_family("timers", options)
        self._timers_handle = self._values.get_column_family_handle("timers")
        for store in (self._values, self._dirty, self._timers):
            store.set_write_options(unlogged)
        self._unlogged = unlogged
        self._fixed = [v for v in schema.stored if v.dtype != BYTES]
        self._timer_names = [schema.timer_names(kind) for kind in _KINDS]
        self._bytes = [v for v in schema.values if v.dtype == BYTES]
        fields = [("hash", "u8"), *((v.name, v.dtype, (v.width,)) for v in self._fixed)]
        self._layout = np.dtype(fields)

    def close(self) -> None:
        """Close the database, also when its disk is full or gone; the caller removes the folder.

        The database closes when its last handle is deleted. ``Rdict.close()`` is not called, because it first writes
        the rows in memory and raises if that fails.
        """
        del self._dirty_handle, self._timers_handle
        del self._dirty, self._timers, self._values

    # --- Keys ---------------------------------------------------------------------------------

    def keys_at(self, keys: Keys, places: Sequence[int]) -> list[bytes]:
        """Return the database keys of the keys at ``places``, each key once."""
        offsets, data, bitmap, bit = keys.text
        found = []
        for i in places:
            valid = not len(bitmap) or bool(bitmap[(bit + i) >> 3] >> ((bit + i) & 7) & 1)
            raw = data[offsets[i] : offsets[i + 1]].tobytes() if valid else None
            found.append(self._key(int(keys.groups[i]), int(keys.hashes[i]), raw))
        return list(dict.fromkeys(found))

    def keys_of(self, copied: RowsCopy) -> list[bytes]:
        """Return the database keys of rows that were copied."""
        keys = copied.keys
        ends, data, null = keys.ends.tolist(), keys.data.tobytes(), keys.null.tolist()
        rows = zip(copied.groups.tolist(), copied.hashes.tolist(), strict=True)
        return [
            self._key(group, hashed, None if null[i] else data[ends[i] : ends[i + 1]])
            for i, (group, hashed) in enumerate(rows)
        ]

    def _key(self, group: int, hashed: int, raw: bytes | None) -> bytes:
        tagged = _NULL if raw is None else _VALUE + raw
        if not self._schema.timed:
            return _GROUP.pack(group) + tagged
        assert raw is not None, "a key with a window end is never a lone null"
        end = int.from_bytes(raw[1:9], "little", signed=True)
        return _TIMED.pack(group, end + _BIAS, hashed) + tagged

    # --- Rows ---------------------------------------------------------------------------------

    def put(self, copied: RowsCopy, marks: Int64s, queued: Mapping[str, npt.NDArray[np.bool_]]) -> list[bytes]:
        """Store rows and return their database keys.

        A mark above 0 is the generation of a change that is not committed. ``queued`` says of each timer in which rows
        it may still fire. One that was taken, and that its row keeps, does not come again.
        """
        batch = WriteBatch(raw_mode=True)
        keys = self.keys_of(copied)
        for key, value, mark in zip(keys, self._encoded(copied), marks.tolist(), strict=True):
            batch.put(key, value)
            if mark > 0:
                batch.put(key, _MARK.pack(mark), self._dirty_handle)
        for kind, names in enumerate(self._timer_names):
            for field, name in enumerate(names):
                for i, time in _set_timers(copied.values[name], queued[name]):
                    head = _TIMER.pack(kind, time + _BIAS, int(copied.hashes[i]), field)
                    batch.put(head + keys[i], b"", self._timers_handle)
        self._values.write(batch, self._unlogged)
        return keys

    def get(self, keys: list[bytes]) -> list[ColdRow]:
        """Return the rows of those keys that are stored."""
        values = self._values[keys] if keys else []
        return [ColdRow(k, v) for k, v in zip(keys, values, strict=True) if v is not None]

    def prefixed(self, prefix: bytes) -> Iterator[list[ColdRow]]:
        """Yield the rows whose database keys begin with ``prefix``, in the order of these keys, as :func:`few` does."""
        items = self._values.items(from_key=prefix)
        yield from few(ColdRow(*item) for item in takewhile(lambda item: item[0].startswith(prefix), items))

    def delete(self, keys: list[bytes]) -> None:
        """Delete rows and their dirty marks; missing rows are ignored."""
        batch = WriteBatch(raw_mode=True)
        for key in keys:
            batch.delete(key)
            batch.delete(key, self._dirty_handle)
        self._values.write(batch, self._unlogged)

    def delete_group(self, group: int) -> None:
        """Forget all rows of a key group."""
        low, high = _GROUP.pack(group), _GROUP.pack(group) + b"\xff" * 32
        for store in (self._values, self._dirty):
            found = list(_prefixed(store.keys(from_key=low), low))
            if found:
                store.delete_range(low, max(high, found[-1] + b"\xff"))

    # --- Dirty rows ---------------------------------------------------------------------------

    def take_dirty(self, keys: list[bytes]) -> list[bytes]:
        """Return the keys that are dirty, and delete their dirty marks."""
        marks = self._dirty[keys] if keys else []
        dirty = [k for k, m in zip(keys, marks, strict=True) if m is not None]
        if dirty:
            batch = WriteBatch(raw_mode=True)
            for key in dirty:
                batch.delete(key, self._dirty_handle)
            self._values.write(batch, self._unlogged)
        return dirty

    def dirty_rows(self) -> Iterator[list[ColdRow]]:
        """Yield every dirty row, as :func:`few` does. Nothing may be written before the last one."""
        keys = iter(self._dirty.keys())
        found = (row for some in iter(lambda: [*islice(keys, _READ_ROWS)], []) for row in self.get(some))
        yield from few(found)

    def settle(self, generation: int) -> None:
        """Delete the dirty marks of changes up to ``generation``: they are committed."""
        done = [k for k, m in self._dirty.items() if _MARK.unpack(m)[0] <= generation]
        if done:
            self.take_dirty(done)

    # --- Timers -------------------------------------------------------------------------------

    def timers(self, kind: TimeKind, bound: int, most: int) -> list["ColdTimer"]:
        """Return up to ``most`` timers that are due at ``bound``, the first ones; some are stale."""
        prefix = bytes((_KINDS.index(kind),))
        found: list[ColdTimer] = []
        for key in _prefixed(self._timers.keys(from_key=prefix), prefix):
            time = _TIMER.unpack_from(key)[1] - _BIAS
            if len(found) == most or time > bound:
                break
            found.append(ColdTimer(time, key[_TIMER.size :], key))
        return found

    def forget_timers(self, timers: Sequence["ColdTimer"]) -> None:
        """Drop timers: their rows are in memory, or they are stale."""
        batch = WriteBatch(raw_mode=True)
        for timer in timers:
            batch.delete(timer.entry, self._timers_handle)
        self._values.write(batch, self._unlogged)

    def has_timer(self, row: ColdRow, timer: "ColdTimer") -> bool:
        """Return whether a stored row still has this timer."""
        kind, _, _, field = _TIMER.unpack_from(timer.entry)
        record = np.frombuffer(row.value[: self._layout.itemsize], self._layout)[0]
        return int(record[self._timer_names[kind][field]][0]) == timer.time

    # --- Windows ------------------------------------------------------------------------------

    def from_key(self, key: bytes, bound: int, most: int) -> list[ColdRow]:
        """Return up to ``most`` rows due at ``bound``, from ``key`` on and in its group."""
        found: list[ColdRow] = []
        group = key[: _GROUP.size]
        for at, value in self._values.items(from_key=key):
            if len(found) == most or not at.startswith(group) or end_of(at) > bound:
                break
            found.append(ColdRow(at, value))
        return found

    def due_times(self, rows: list[ColdRow]) -> Int64s:
        """Return when each row comes due. That may be later than the end in its key: a step says it."""
        size = self._layout.itemsize
        times: Int64s = np.frombuffer(b"".join(row.value[:size] for row in rows), self._layout)[END][:, 0]
        return times

    def next_key(self, key: bytes) -> bytes | None:
        """Return the first database key at or after ``key`` in its group; None if there is none."""
        return next(_prefixed(self._values.keys(from_key=key), key[: _GROUP.size]), None)

    # --- Encoding -----------------------------------------------------------------------------

    def _encoded(self, copied: RowsCopy) -> list[bytes]:
        count = len(copied.groups)
        records = np.zeros(count, self._layout)
        records["hash"] = copied.hashes
        for v in self._fixed:
            records[v.name] = copied.values[v.name].reshape(count, v.width)
        raw, size = records.tobytes(), self._layout.itemsize
        encoded = [raw[i : i + size] for i in range(0, count * size, size)]
        for v in self._bytes:
            ends, data, null = copied.values[v.name]
            for i in range(count):
                item = b"" if null[i] else data[ends[i] : ends[i + 1]].tobytes()
                encoded[i] += _LENGTH.pack(0 if null[i] else len(item) + 1) + item
        return encoded

    def decoded(self, rows: list[ColdRow]) -> tuple[Keys, dict[str, Any]]:
        """Return keys and values as :meth:`penstock.keyed_state.hot.HotTable.load` takes them."""
        head = (_TIMED if self._schema.timed else _GROUP).size
        raw = [None if r.key[head : head + 1] == _NULL else r.key[head + 1 :] for r in rows]
        size = self._layout.itemsize
        records = np.frombuffer(b"".join(r.value[:size] for r in rows), self._layout)
        groups = np.array([_GROUP.unpack_from(r.key)[0] for r in rows], np.int32)
        encoded = text(flat(pa.array(raw, pa.large_binary())))
        keys = Keys(encoded, np.ascontiguousarray(records["hash"]), groups)
        values: dict[str, Any] = {}
        for v in self._fixed:
            values[v.name] = records[v.name] if v.width > 1 else records[v.name][:, 0]
        tails = [r.value[size:] for r in rows]
        for v in self._bytes:
            items, tails = _cut_items(tails)
            values[v.name] = pa.array(items, pa.binary())
        return keys, values


def end_of(key: bytes) -> int:
    """Return the window end in a database key of timed state."""
    end: int = _DUE.unpack_from(key)[1]
    return end - _BIAS


def group_of(key: bytes) -> int:
    """Return the key group in a database key."""
    group: int = _GROUP.unpack_from(key)[0]
    return group


def few(rows: Iterator[ColdRow]) -> Iterator[list[ColdRow]]:
    """Yield rows, up to ``COPIED_ROWS_MAX`` or ``COPIED_BYTES_MAX`` at a time: decoded rows use much memory."""
    few: list[ColdRow] = []
    size = 0
    for row in rows:
        few.append(row)
        size += len(row.value)
        if len(few) == COPIED_ROWS_MAX or size >= COPIED_BYTES_MAX:
            yield few
            few, size = [], 0
    if few:
        yield few


def _prefixed(keys: Iterator[bytes], prefix: bytes) -> Iterator[bytes]:
    for key in keys:
        if not key.startswith(prefix):
            return
        yield key


def _cut_items(tails: list[bytes]) -> tuple[list[bytes | None], list[bytes]]:
    """Take the first bytes item off every tail."""
    items: list[bytes | None] = []
    rest = []
    for tail in tails:
        (length,) = _LENGTH.unpack_from(tail)
        stop = _LENGTH.size + max(length - 1, 0)
        items.append(tail[_LENGTH.size : stop] if length else None)
        rest.append(tail[stop:])
    return items, rest


def _set_timers(times: Int64s, queued: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yield place and time of the timers of a column that are set and queued."""
    places = np.flatnonzero((times != NO_TIMER) & queued)
    yield from zip(places.tolist(), times[places].tolist(), strict=True)
