"""Records, states and outputs in compiled functions: loads and stores at addresses of columns.

A field of the record is a load from its column, at the row of the loop. A field of the state is a load or a store in
its column of the state table, at the row of the record's key. What is emitted is stored in the columns
of the output.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types

from penstock.model.declared.field_kinds import BEGUN, HEAD, LENGTH, SET, RingField, ScalarField, TimerField, field_text
from penstock.model.declared.record_types import RecordType
from penstock.model.declared.state_types import KeptField, StateType
from penstock.model.declared.value_kinds import (
    Binary,
    Boolean,
    Choice,
    Floating,
    Instant,
    Item,
    Struct,
    Text,
    Tuple,
    ValueKind,
    Whole,
    kind_text,
)
from penstock.model.table_columns import NO_TIMER
from penstock.steps.compiled import arithmetic, text_operations
from penstock.steps.compiled.frame_words import ColumnPart, FrameWord, Side
from penstock.steps.compiled.held_kinds import (
    BINARY,
    BOOL,
    F32,
    F64,
    FLOAT,
    I1,
    I8,
    I16,
    I32,
    I64,
    INT,
    INT_LEAST,
    NONE,
    NOTHING,
    TEXT,
    Code,
    Group,
    Held,
    Maybe,
    NotKnownError,
    RingView,
    group,
    items_of,
    joined,
    spelled,
)
from penstock.steps.compiled.loop_writer import LoopWriter

_INTS = {8: I8, 16: I16, 32: I32, 64: I64}
_AHEAD = 12  # records whose state is asked for ahead of the one in work
Load = Callable[[Item, str], Held]


def stored_type(kind: ValueKind) -> Any:
    """Return the LLVM type of a column of fixed width."""
    match kind:
        case Whole(bits):
            return _INTS[bits]
        case Floating(bits):
            return F64 if bits == 64 else F32
        case Boolean():
            return I8
        case Choice():
            return I8 if kind.dtype == "int8" else I16
        case Instant():
            return I64
    raise NotKnownError(kind_text(kind))


def _shown(m: LoopWriter, kind: ValueKind, found: Any) -> Held:
    """Return a number of a column as the value that a function gets."""
    match kind:
        case Whole(bits, signed):
            if bits == 64 and not signed:
                m.check(m.b.icmp_signed(">=", found, I64(0)))
            wide = found if bits == 64 else m.b.sext(found, I64) if signed else m.b.zext(found, I64)
            return Held(INT, (wide,))
        case Floating(bits):
            return Held(FLOAT, (found if bits == 64 else m.b.fpext(found, F64),))
        case Boolean():
            return Held(BOOL, (m.b.icmp_unsigned("!=", found, I8(0)),))
        case Choice(values):
            return Held(Code(values), (m.b.sext(found, I64),))
        case _:
            return Held(INT, (found,))


def kept(m: LoopWriter, kind: ValueKind, value: Held) -> Any:
    """Return a value as a column of fixed width keeps it; one that does not fit fails the check."""
    value = arithmetic.present(m, value)
    match kind:
        case Whole() | Instant() if value.kind in (INT, BOOL) or (isinstance(kind, Whole) and _is_code(value)):
            number = value.only if _is_code(value) else arithmetic.as_int(m, value)
            return _narrow(m, kind, number)
        case Floating(bits) if value.kind in (INT, FLOAT):
            return _float(m, value, bits)
        case Boolean() if value.kind == BOOL:
            return m.b.zext(value.only, I8)
        case Choice(values):
            return m.b.trunc(_code(m, values, value), stored_type(kind))
    raise NotKnownError(f"{spelled(value.kind)} as {kind_text(kind)}")


def _is_code(value: Held) -> bool:
    return isinstance(value.kind, Code)


def _narrow(m: LoopWriter, kind: Whole | Instant, number: Any) -> Any:
    if isinstance(kind, Instant):
        m.check(m.b.icmp_signed("!=", number, I64(INT_LEAST)))
        return number
    if kind.bits == 64:
        if not kind.signed:
            m.check(m.b.icmp_signed(">=", number, I64(0)))
        return number
    within = m.b.icmp_signed(">=", number, I64(kind.least)), m.b.icmp_signed("<=", number, I64(kind.most))
    m.check(m.both(*within))
    return m.b.trunc(number, _INTS[kind.bits])


def _float(m: LoopWriter, value: Held, bits: int) -> Any:
    number = arithmetic.as_float(m, value)
    if value.kind == INT:  # exact up to 2^53, as Python asks for
        m.check(m.b.icmp_unsigned("<=", m.b.add(value.only, I64(arithmetic.EXACT)), I64(2 * arithmetic.EXACT)))
    if bits == 64:
        return number
    narrow = m.b.fptrunc(number, F32)
    wide = m.b.fpext(narrow, F64)
    if value.kind == INT:
        m.check(m.b.fcmp_ordered("==", wide, number))
    else:
        m.check(m.b.or_(arithmetic.finite(m, wide), m.b.not_(arithmetic.finite(m, number))))
    return narrow


def _code(m: LoopWriter, values: tuple[str, ...], value: Held) -> Any:
    if isinstance(value.known, str) and value.known in values:
        return I64(values.index(value.known))
    if _is_code(value) and value.kind == Code(values):
        return value.only
    text = text_operations.text_of(m, value)
    if text.kind != TEXT:
        raise NotKnownError(f"{spelled(value.kind)} as a text of an Enum")
    return text_operations.code_of(m, values, *text.leaves).only


def _parts(kind: Struct | Tuple, load: Load, path: str) -> Held:
    record = kind.record if isinstance(kind, Struct) else None
    return group(tuple(load(item, f"{path}.{name}") for name, item in kind.parts), record)


# --- The record -------------------------------------------------------------------------------


def read_choices(m: LoopWriter, record: RecordType) -> None:
    """Load the texts of Enums of the record: an unknown one is an error, also if the function does not ask for it."""
    for field in record.fields:
        if isinstance(field.kind, Choice):
            if field.nullable:
                with m.b.if_then(_is_valid(m, field.name)):
                    text_operations.code_of(m, field.kind.values, *_span(m, field.name))
            else:
                m.choices[field.name] = text_operations.code_of(m, field.kind.values, *_span(m, field.name))


def record_value(m: LoopWriter, item: Item, path: str) -> Held:
    """Load a field of the record."""
    kind = item.kind
    if item.nullable:
        held = _record_value(m, kind, path, check=False)
        valid = _is_valid(m, path)
        return Held(Maybe(held.kind), (valid, *held.leaves))
    return _record_value(m, kind, path, check=True)


def _is_valid(m: LoopWriter, path: str) -> Any:
    bitmap, bit = (m.slot(FrameWord(Side.RECORD, path, part)) for part in (ColumnPart.VALID, ColumnPart.BIT))
    found = m.local(I1)
    m.b.store(I1(1), found)
    with m.b.if_then(m.b.icmp_unsigned("!=", bitmap, I64(0))):
        at = m.b.add(m.row, bit)
        byte = m.load(bitmap, I8, m.b.lshr(at, I64(3)))
        m.b.store(m.b.trunc(m.b.lshr(byte, m.b.trunc(m.b.and_(at, I64(7)), I8)), I1), found)
    return m.b.load(found)


def _record_value(m: LoopWriter, kind: ValueKind, path: str, *, check: bool) -> Held:
    match kind:
        case Struct() | Tuple():
            raise NotKnownError(f"a field of type {kind_text(kind)}")
        case Text() | Binary():
            return Held(TEXT if isinstance(kind, Text) else BINARY, _span(m, path))
        case Choice():
            if not check:
                raise NotKnownError("an Enum that may be None")
            return m.choices[path]
        case Whole() | Floating() | Boolean() | Instant():
            return _shown(
                m, kind, m.load(m.slot(FrameWord(Side.RECORD, path, ColumnPart.VALUES)), stored_type(kind), m.row)
            )
    raise NotKnownError(f"a field of type {kind_text(kind)}")


def _span(m: LoopWriter, path: str) -> tuple[Any, Any]:
    offsets, data = (m.slot(FrameWord(Side.RECORD, path, part)) for part in (ColumnPart.OFFSETS, ColumnPart.BYTES))
    start, stop = (m.b.sext(m.load(offsets, I32, m.b.add(m.row, I64(n))), I64) for n in (0, 1))
    return m.b.add(data, start), m.b.sub(stop, start)


# --- The state --------------------------------------------------------------------------------


class StateColumns:
    """The columns of the state at the row of the record's key."""

    def __init__(self, m: LoopWriter, state: StateType | None) -> None:
        """Load the row. A new key gets its first values. A function without a state has no columns."""
        self._m = m
        self._ahead: set[str] = set()
        if state is None:
            return
        self.row = m.state_row()
        if state.begins:
            self._begin(state)

    def _begin(self, state: StateType) -> None:
        m = self._m
        begun = m.load(self._column(BEGUN), I8, self.row)
        with m.b.if_then(m.b.icmp_unsigned("==", begun, I8(0))):
            for each in state.fields:
                if not each.begins_as_zeros:
                    self.put(each, known_value(m, each.default))
            m.write(I8(1), self._column(BEGUN), self.row)

    def _column(self, name: str) -> Any:
        return self._m.slot(FrameWord(Side.STATE, name, ColumnPart.VALUES))

    def _fetched(self, name: str, width: int) -> Any:
        """Return a column, and ask the processor for it ahead of later records."""
        address = self._column(name)
        if name not in self._ahead:
            self._ahead.add(name)
            self._m.prefetch(address, _AHEAD, width)
        return address

    def get(self, field: KeptField) -> Held:
        """Return a field as the function sees it."""
        match field.kind:
            case ScalarField(kind, nullable):
                return self._get(Item(kind, nullable), field.name)
            case RingField():
                return Held(RingView(field.name, field.kind))
            case TimerField():
                time = self._m.load(self._column(field.name), I64, self.row)
                return Held(Maybe(INT), (self._m.b.icmp_signed("!=", time, I64(NO_TIMER)), time))
        raise NotKnownError(f"a field {field_text(field.kind)}")

    def _get(self, item: Item, name: str) -> Held:
        if item.nullable and not isinstance(item.kind, Text | Binary):
            valid = self._m.load(self._column(name + SET), I8, self.row)
            held = self._get(Item(item.kind), name)
            return Held(Maybe(held.kind), (self._m.b.icmp_unsigned("!=", valid, I8(0)), *held.leaves))
        if isinstance(item.kind, Struct | Tuple):
            return _parts(item.kind, self._get, name)
        kind = stored_type(item.kind)
        return _shown(self._m, item.kind, self._m.load(self._fetched(name, _bytes_of(kind)), kind, self.row))

    def put(self, field: KeptField, value: Held) -> None:
        """Assign to a field."""
        match field.kind:
            case ScalarField(kind, nullable):
                return self._put(Item(kind, nullable), field.name, value)
            case TimerField():
                return self._put_timer(field.name, value)
        raise NotKnownError(f"assigning to a field {field_text(field.kind)}")

    def _put_timer(self, name: str, value: Held) -> None:
        m, address = self._m, self._column(name)
        if value.kind == NONE:
            return m.write(I64(NO_TIMER), address, self.row)
        return m.write(_narrow(m, Instant(), _int_of(m, value)), address, self.row)

    def _put(self, item: Item, name: str, value: Held) -> None:
        m = self._m
        if item.nullable and not isinstance(item.kind, Text | Binary):
            address = self._column(name + SET)
            if value.kind == NONE:
                return m.write(I8(0), address, self.row)
            if isinstance(value.kind, Maybe):
                m.write(m.b.zext(value.leaves[0], I8), address, self.row)
                with m.b.if_then(value.leaves[0]):
                    self._put(Item(item.kind), name, Held(value.kind.kind, value.leaves[1:]))
                return None
            m.write(I8(1), address, self.row)
            return self._put(Item(item.kind), name, value)
        if isinstance(item.kind, Struct | Tuple):
            return self._put_parts(item.kind, name, value)
        return m.write(kept(m, item.kind, value), self._column(name), self.row)

    def _put_parts(self, kind: Struct | Tuple, name: str, value: Held) -> None:
        value = arithmetic.present(self._m, value)
        record = kind.record if isinstance(kind, Struct) else None
        if not isinstance(value.kind, Group) or value.kind.record != record or len(value.kind.items) != len(kind.parts):
            raise NotKnownError(f"{spelled(value.kind)} as {kind_text(kind)}")
        for (part, item), each in zip(kind.parts, items_of(value), strict=True):
            self._put(item, f"{name}.{part}", each)

    # --- Rings ---

    def ring_length(self, view: RingView) -> Any:
        """Return how many values a ring has."""
        return self._word(view, LENGTH)

    def _word(self, view: RingView, name: str) -> Any:
        return self._m.b.sext(self._m.load(self._column(view.name + name), I32, self.row), I64)

    def _slot(self, view: RingView, number: Any) -> Any:
        """Return the item of the column that has value ``number`` of the ring."""
        m, width = self._m, I64(view.ring.width)
        at = m.b.add(self._word(view, HEAD), number)
        at = m.b.select(m.b.icmp_signed(">=", at, width), m.b.sub(at, width), at)
        return m.b.add(m.b.mul(self.row, width), at)

    def ring_get(self, view: RingView, number: Any) -> Held:
        """Return value ``number`` of a ring, which must have it."""
        kind = stored_type(view.ring.item)
        found = self._m.load(
            self._fetched(view.name, view.ring.width * _bytes_of(kind)), kind, self._slot(view, number)
        )
        return _shown(self._m, view.ring.item, found)

    def ring_append(self, view: RingView, value: Held) -> Held:
        """Add a value to a ring. Returns the one that fell out, or zero while the ring is not full."""
        m, width = self._m, I64(view.ring.width)
        number = kept(m, view.ring.item, value)
        length, head = self._word(view, LENGTH), self._word(view, HEAD)
        address = self._fetched(view.name, view.ring.width * _bytes_of(number.type))
        is_full = m.b.icmp_signed(">=", length, width)
        place = self._slot(view, m.b.select(is_full, I64(0), length))
        found = m.load(address, number.type, place)
        fell = m.b.select(is_full, found, ir.Constant(number.type, 0))
        m.write(number, address, place)
        later = m.b.add(head, I64(1))
        later = m.b.select(m.b.icmp_signed("==", later, width), I64(0), later)
        with m.b.if_else(is_full) as (full, growing):
            with full:
                m.write(m.b.trunc(later, I32), self._column(view.name + HEAD), self.row)
            with growing:
                m.write(m.b.trunc(m.b.add(length, I64(1)), I32), self._column(view.name + LENGTH), self.row)
        return _shown(m, view.ring.item, fell)

    def ring_clear(self, view: RingView) -> None:
        """Remove all values of a ring."""
        for name in (HEAD, LENGTH):
            self._m.write(I32(0), self._column(view.name + name), self.row)


def _bytes_of(kind: Any) -> int:
    return kind.width // 8 if isinstance(kind, ir.IntType) else 8 if kind == F64 else 4


def _int_of(m: LoopWriter, value: Held) -> Any:
    value = arithmetic.present(m, value)
    if value.kind not in (INT, BOOL):
        raise NotKnownError(f"{spelled(value.kind)} as a time")
    return arithmetic.as_int(m, value)


# --- What is emitted --------------------------------------------------------------------------


def emit(m: LoopWriter, output: str, record: RecordType, value: Held) -> None:
    """Append a record to an output. Raises NotKnownError if it is of another class."""
    value = arithmetic.present(m, value)
    if not isinstance(value.kind, Group) or value.kind.record != record:
        raise NotKnownError(f"{spelled(value.kind)} as {record.name}")
    rows = m.counter(FrameWord(Side.OUT, "", ColumnPart.USED, output))
    row = m.b.load(rows)
    m.check_room(m.b.icmp_signed("<", row, m.slot(FrameWord(Side.OUT, "", ColumnPart.ROOM, output))))
    for field, each in zip(record.fields, items_of(value), strict=True):
        _emit_value(m, (output, field.name, row), Item(field.kind, field.nullable), each)
    m.store(m.b.trunc(m.row, I32), m.slot(FrameWord(Side.OUT, "", ColumnPart.ROW, output)), row)
    m.b.store(m.b.add(row, I64(1)), rows)


def keep(m: LoopWriter, value: Held) -> None:
    """Note whether a filter keeps the record."""
    m.store(m.b.zext(value.only, I8), m.slot(FrameWord(Side.OUT, "", ColumnPart.VALUES)), m.row)


def _emit_value(m: LoopWriter, place: tuple[str, str, Any], item: Item, value: Held) -> None:
    output, path, row = place
    if item.nullable:
        valid = I1(1)
        if value.kind == NONE:
            valid, value = I1(0), _zero(m, item.kind)
        elif isinstance(value.kind, Maybe):
            valid, value = value.leaves[0], _or_zero(m, item.kind, value)
        m.store(m.b.zext(valid, I8), m.slot(FrameWord(Side.OUT, path, ColumnPart.VALID, output)), row)
    match item.kind:
        case Text() | Choice():
            _emit_span(m, place, _emitted_text(m, item.kind, value))
        case Binary():
            _emit_span(m, place, arithmetic.present(m, value), BINARY)
        case Whole() | Floating() | Boolean() | Instant():
            m.store(kept(m, item.kind, value), m.slot(FrameWord(Side.OUT, path, ColumnPart.VALUES, output)), row)
        case _:
            raise NotKnownError(f"emitting a field of type {kind_text(item.kind)}")


def _zero(m: LoopWriter, kind: ValueKind) -> Held:
    match kind:
        case Text() | Choice():
            return text_operations.literal(m, kind.values[0] if isinstance(kind, Choice) else "")
        case Binary():
            return text_operations.literal(m, b"")
        case Floating():
            return arithmetic.constant(0.0)
        case Boolean():
            return arithmetic.constant(False)
        case _:
            return arithmetic.constant(0)


def _or_zero(m: LoopWriter, kind: ValueKind, value: Held) -> Held:
    """Return the value, or zero where it is None: what stands behind a null must not fail a check."""
    assert isinstance(value.kind, Maybe), "the caller knows the kind"
    inner = value.kind.kind
    if isinstance(inner, Code):
        held: Held = text_operations.text_of(m, Held(inner, (m.b.select(value.leaves[0], value.leaves[1], I64(0)),)))
        return held
    zero = _zero(m, kind)
    if inner == INT and zero.kind == FLOAT:
        zero = arithmetic.constant(0)
    if joined(zero.kind, inner) != zero.kind:
        raise NotKnownError(f"{spelled(inner)} as {kind_text(kind)}")
    pairs = zip(value.leaves[1:], zero.leaves, strict=True)
    return Held(inner, tuple(m.b.select(value.leaves[0], leaf, other) for leaf, other in pairs))


def _emitted_text(m: LoopWriter, kind: Text | Choice, value: Held) -> Held:
    value = arithmetic.present(m, value)
    if isinstance(kind, Choice):
        value = Held(Code(kind.values), (_code(m, kind.values, value),))
    return text_operations.text_of(m, value)


def _emit_span(m: LoopWriter, place: tuple[str, str, Any], value: Held, wanted: Any = TEXT) -> None:
    output, path, row = place
    if value.kind != wanted:
        raise NotKnownError(f"{spelled(value.kind)} as {spelled(wanted)}")
    address, size = value.leaves
    used = m.counter(FrameWord(Side.OUT, path, ColumnPart.USED, output))
    start = m.b.load(used)
    end = m.b.add(start, size)
    m.check_room(m.b.icmp_signed("<=", end, m.slot(FrameWord(Side.OUT, path, ColumnPart.ROOM, output))))
    target = m.b.add(m.slot(FrameWord(Side.OUT, path, ColumnPart.BYTES, output)), start)
    pointers = [m.b.inttoptr(each, I8.as_pointer()) for each in (target, address)]
    kind = ir.FunctionType(ir.VoidType(), [pointers[0].type, pointers[1].type, I64, I1])
    copy = m.module.declare_intrinsic("llvm.memcpy", (pointers[0].type, pointers[1].type, I64), kind)
    m.b.call(copy, [*pointers, size, I1(0)])
    m.store(m.b.trunc(end, I32), m.slot(FrameWord(Side.OUT, path, ColumnPart.OFFSETS, output)), m.b.add(row, I64(1)))
    m.b.store(end, used)


def known_value(m: LoopWriter, value: object) -> Held:
    """Return a value that is known when the function is built. Raises NotKnownError for other objects."""
    match value:
        case None:
            return NOTHING
        case bool() | int() | float():
            return arithmetic.constant(value)
        case str() | bytes():
            return text_operations.literal(m, value)
        case tuple():
            return group(tuple(known_value(m, each) for each in value))
    raise NotKnownError(f"a value of class {type(value).__name__}")
