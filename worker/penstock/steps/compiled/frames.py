"""Runs a built loop over batches: columns to addresses, room for what is emitted, and the records for Python.

run = CompiledRecords(loop, types)
calls = run.begin(batch, state, rows)
while (row := calls.next_for_python()) is not None:
    ...                              # Python runs record ``row``, whose writes were all undone
emitted, rows = calls.take("main")   # in order, and for each of them the row of its record
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.contract.graph import MAIN
from penstock.model.arrays import Int32s, bits, fixed, flat, pack_validity, text
from penstock.model.declared.function_types import FunctionTypes
from penstock.model.declared.record_types import RecordType
from penstock.model.declared.value_kinds import Binary, Boolean, Choice, Instant, Item, Text, ValueKind
from penstock.steps.base import KeyedState
from penstock.steps.compiled.building import BuiltLoop
from penstock.steps.compiled.frame_words import (
    DONE,
    HEADER,
    LOG,
    LOG_FULL,
    LOG_ROOM,
    LOG_WORDS,
    NO_ROOM,
    PLACE,
    ROWS,
    STATE_ROWS,
    ColumnPart,
    FrameWord,
    Side,
)
from penstock.steps.compiled.unread_fields import fits

ENTRIES = 256  # of the undo log at first
ENTRIES_MAX = 1 << 16  # a record that writes more is run by Python
TEXT_BYTES = 16  # room for a text at first
TEXT_BYTES_MAX = 1 << 30  # of one column; what does not fit is run by Python
_NO_ROWS: Int32s = np.zeros(0, np.int32)


class CompiledRecords:
    """A loop with its undo log."""

    def __init__(self, loop: BuiltLoop, types: FunctionTypes) -> None:
        """Run ``loop``, which was built for a function of these types."""
        self.loop = loop
        self.outputs: dict[str, RecordType] = dict(types.sides)
        if types.main is not None:
            self.outputs[MAIN] = types.main
        self._fields = {field.name: field for field in types.record.fields}
        self._used = sorted({slot.column for slot in loop.slots if slot.side is Side.RECORD})
        self.log = np.zeros(ENTRIES * LOG_WORDS, np.int64)

    def begin(self, batch: pa.RecordBatch, state: KeyedState | None = None, rows: Int32s = _NO_ROWS) -> "CompiledCalls":
        """Prepare the records of a batch that it :meth:`reads`. ``rows`` has the row of each key in ``state``."""
        calls = CompiledCalls(self, batch.num_rows, rows)
        for slot in self.loop.slots:
            if slot.side is Side.STATE:
                assert state is not None, "a function with a state has keys"
                calls.show(slot, state.column(slot.column))
        for name in self._used:
            self._record(calls, name, flat(batch.column(name)))
        return calls

    def reads(self, batch: pa.RecordBatch) -> bool:
        """Return whether the columns are of the record's own types, without nulls where the record has none.

        So are those that machine code does not load. Python reads other batches.
        """
        for name, field in self._fields.items():
            column = batch.column(name)
            if name not in self._used:
                if not fits(Item(field.kind, field.nullable), column):
                    return False
                continue
            if column.null_count and not field.nullable:
                return False
            if column.type != _arrow(field.kind) and not _is_alike(field.kind, column.type):
                return False
        return True

    def _record(self, calls: "CompiledCalls", name: str, column: pa.Array) -> None:
        field = self._fields[name]
        if isinstance(field.kind, Instant):
            column = column.cast(pa.int64())
        if _is_text(column.type):
            offsets, data, _, _ = text(column)
            calls.show(FrameWord(Side.RECORD, name, ColumnPart.OFFSETS), offsets)
            calls.show(FrameWord(Side.RECORD, name, ColumnPart.BYTES), data)
        elif isinstance(field.kind, Boolean):
            calls.show(FrameWord(Side.RECORD, name, ColumnPart.VALUES), bits(column))
        else:
            calls.show(FrameWord(Side.RECORD, name, ColumnPart.VALUES), fixed(column, column.type.to_pandas_dtype()))
        if column.null_count:
            calls.show(FrameWord(Side.RECORD, name, ColumnPart.VALID), np.frombuffer(column.buffers()[0], np.uint8))
            calls.put(FrameWord(Side.RECORD, name, ColumnPart.BIT), column.offset)


class CompiledCalls:
    """The records of one batch. ``kept`` says for each row whether a filter keeps it."""

    def __init__(self, owner: CompiledRecords, count: int, rows: Int32s) -> None:
        """Prepare the frame of ``count`` records."""
        self._owner, self._slots = owner, owner.loop.slots
        self.outputs = owner.outputs
        self._frame = np.zeros(HEADER + len(self._slots), np.int64)
        self._held: list[Any] = [rows]
        self._frame[[ROWS, STATE_ROWS]] = count, rows.ctypes.data
        self._show_log()
        self._buffers: dict[FrameWord, npt.NDArray[Any]] = {}
        for output in owner.outputs:
            self._make_room(output, max(count, 1), TEXT_BYTES * max(count, 1))
        self.kept = np.zeros(count, np.bool_)
        self.show(FrameWord(Side.OUT, "", ColumnPart.VALUES), self.kept)

    def show(self, slot: FrameWord, values: npt.NDArray[Any]) -> None:
        """Give the loop the address of an array, if the function uses it."""
        if slot in self._slots:
            self._held.append(values)
            self._frame[self._slots[slot]] = values.ctypes.data

    def put(self, slot: FrameWord, number: int) -> None:
        """Give the loop a number, if the function uses it."""
        if slot in self._slots:
            self._frame[self._slots[slot]] = number

    def _number(self, slot: FrameWord) -> int:
        return int(self._frame[self._slots[slot]]) if slot in self._slots else 0

    def _show_log(self) -> None:
        self._frame[[LOG, LOG_ROOM]] = self._owner.log.ctypes.data, len(self._owner.log) // LOG_WORDS

    def next_for_python(self) -> int | None:
        """Run records up to one that Python has to run, and return its row; None if all are done."""
        while True:
            status = self._owner.loop.run(self._frame.ctypes.data)
            if status == DONE:
                return None
            grown = self._grow() if status == NO_ROOM else status == LOG_FULL and self._grow_log()
            if not grown:
                row = int(self._frame[PLACE])
                self._frame[PLACE] = row + 1
                return row

    def _grow_log(self) -> bool:
        entries = len(self._owner.log) // LOG_WORDS
        if entries >= ENTRIES_MAX:
            return False
        self._owner.log = np.zeros(2 * entries * LOG_WORDS, np.int64)
        self._show_log()
        return True

    # --- What is emitted ----------------------------------------------------------------------

    def _make_room(self, output: str, rows: int, size: int) -> None:
        """Make buffers for so many rows, and so many bytes in each column of texts. Keeps what is there."""
        self.put(FrameWord(Side.OUT, "", ColumnPart.ROOM, output), rows)
        self._buffer(FrameWord(Side.OUT, "", ColumnPart.ROW, output), np.int32, rows)
        for field in self._owner.outputs[output].fields:
            name = field.name
            if field.nullable:
                self._buffer(FrameWord(Side.OUT, name, ColumnPart.VALID, output), np.uint8, rows)
            if field.kind.dtype == "bytes" or isinstance(field.kind, Choice):
                self.put(FrameWord(Side.OUT, name, ColumnPart.ROOM, output), size)
                self._buffer(FrameWord(Side.OUT, name, ColumnPart.OFFSETS, output), np.int32, rows + 1)
                self._buffer(FrameWord(Side.OUT, name, ColumnPart.BYTES, output), np.uint8, size)
            else:
                self._buffer(FrameWord(Side.OUT, name, ColumnPart.VALUES, output), np.dtype(field.kind.dtype), rows)

    def _buffer(self, slot: FrameWord, dtype: Any, items: int) -> None:
        if slot not in self._slots:
            return
        made = np.empty(items, dtype)
        before = self._buffers.get(slot)
        if before is None:
            made[:1] = 0
        else:
            made[: len(before)] = before
        self._buffers[slot] = made
        self._frame[self._slots[slot]] = made.ctypes.data

    def _grow(self) -> bool:
        room = [(s, self._number(s)) for s in self._slots if s.side is Side.OUT and s.part is ColumnPart.ROOM]
        size = max((number for slot, number in room if slot.column), default=1)
        rows = max(number for slot, number in room if not slot.column)
        if max(size, rows) >= TEXT_BYTES_MAX:
            return False
        for output in self._owner.outputs:
            self._make_room(output, 2 * rows, 2 * size)
        return True

    def take(self, output: str) -> tuple[pa.RecordBatch, Int32s]:
        """Return the rows that were emitted to an output, and for each of them the row of its record. Called once."""
        record = self._owner.outputs[output]
        rows = self._number(FrameWord(Side.OUT, "", ColumnPart.USED, output))
        emitters = self._buffers.get(FrameWord(Side.OUT, "", ColumnPart.ROW, output), np.zeros(0, np.int32))[:rows]
        arrays = [self._array(output, field, rows) for field in record.fields]
        schema = pa.schema([pa.field(f.name, _arrow(f.kind)) for f in record.fields])
        return pa.RecordBatch.from_arrays(arrays, schema=schema), emitters

    def _array(self, output: str, field: Any, rows: int) -> pa.Array:
        kind = _arrow(field.kind)
        if not rows:
            return pa.array([], kind)

        def part(which: ColumnPart) -> npt.NDArray[Any]:
            return self._buffers[FrameWord(Side.OUT, field.name, which, output)]

        bitmap = pack_validity(part(ColumnPart.VALID)[:rows].view(np.bool_)) if field.nullable else None
        if field.kind.dtype == "bytes" or isinstance(field.kind, Choice):
            buffers = [bitmap, pa.py_buffer(part(ColumnPart.OFFSETS)), pa.py_buffer(part(ColumnPart.BYTES))]
            return pa.Array.from_buffers(kind, rows, buffers)
        values = part(ColumnPart.VALUES)
        if isinstance(field.kind, Boolean):
            values = np.packbits(values[:rows], bitorder="little")
        return pa.Array.from_buffers(kind, rows, [bitmap, pa.py_buffer(values)])


def _is_alike(kind: ValueKind, found: pa.DataType) -> bool:
    """Return whether a column of another type has values in the same form."""
    if isinstance(kind, Instant):
        return bool(pa.types.is_timestamp(found) and found.unit == "us")
    return isinstance(kind, Text | Choice | Binary) and _is_text(found)


def _is_text(found: pa.DataType) -> bool:
    return found in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())


def _arrow(kind: ValueKind) -> pa.DataType:
    return pa.timestamp("us") if isinstance(kind, Instant) else pa.type_for_alias(kind.arrow)
