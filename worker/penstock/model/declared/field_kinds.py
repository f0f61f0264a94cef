"""The kinds of state fields, and the columns in which each is kept.

The state of a step is one table. A field is kept in columns of this table, or in a child table of its own.
Names of columns:

    kind of field              columns of the step's table
    -------------------------  --------------------------------------------------------------------
    number, bool, Time         ``f`` (numpy type; a bool is uint8, a Time is int64 us)
    Enum                       ``f`` (int8 or int16): the place of the text among the values
    str, bytes, Decimal        ``f`` (bytes). Nothing stored is None, or the default without None
    ... | None                 of the numpy kinds also ``f.set`` (uint8): 1 where there is a value
    tuple, record              the columns of each part ``f._1``, or ``f.name``; ``f.set`` if None
    Ring[T, n]                 ``f`` (n wide), ``f.head``, ``f.length`` (int32). Item i is at
                               (head + i) modulo n
    Timer, ClockTimer          ``f`` (int64): the time, or NO_TIMER, the least int64
    Aggregate[mean, T]         ``f.mean``: the sum (float64, int64 or uint64), for a mean of whole
                               numbers its low 64 bits and ``f.mean.high`` (int64); how many values
                               ``f.mean.seen`` (int64). Of a count ``f.count`` (int64) only.
                               Another function has other columns: it begins anew

    kind of field              child table, by the key and a subkey
    -------------------------  --------------------------------------------------------------------
    List[T]                    subkey: the number of the item; the value in columns ``value...``;
                               ``f.first`` and ``f.length`` (int64) in the step's table
    Map[K, V]                  subkey: K; ``value...``; ``f.length`` (int64) in the step's table
    Set[K]                     subkey: K; ``f.length`` (int64) in the step's table
    Timers                     subkey: the time; ``f.length`` (int64) in the step's table, and if a
                               function is called at these times, the timer ``f.next`` (int64)

A new key has zeros in all columns. If a field begins as something else, the table also has
``__begun`` (uint8): a row in which it is 0 takes the first values of its fields before the function
sees it, and it becomes 1. So the first values are ordinary writes, which an undo reverts.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.base.limits import ENTRIES_DEFAULT
from penstock.contract.graph import Function
from penstock.model.declared.value_kinds import (
    FIXED,
    GROUPED,
    SPANNED,
    Fixed,
    Floating,
    Item,
    ValueKind,
    Whole,
    kind_text,
)
from penstock.model.table_columns import BYTES, Value

BEGUN = "__begun"
SET, HEAD, LENGTH, FIRST, NEXT, HIGH = ".set", ".head", ".length", ".first", ".next", ".high"


@dataclass(frozen=True, slots=True)
class ScalarField:
    """One value: ``s.n += 1``. It may be None if it is nullable."""

    kind: ValueKind
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class RingField:
    """The last ``width`` values: ``append`` gives what fell out, or zero."""

    item: Fixed
    width: int


@dataclass(frozen=True, slots=True)
class ListField:
    """A list of at most ``most`` items for each key."""

    item: Item
    most: int = ENTRIES_DEFAULT


@dataclass(frozen=True, slots=True)
class MapField:
    """A map of at most ``most`` entries for each key, in the order of its own keys."""

    key: ValueKind
    value: Item
    most: int = ENTRIES_DEFAULT


@dataclass(frozen=True, slots=True)
class SetField:
    """A set of at most ``most`` entries for each key, in order."""

    key: ValueKind
    most: int = ENTRIES_DEFAULT


@dataclass(frozen=True, slots=True)
class AggregateField:
    """A built-in aggregate (``mean``) of values of ``item``: ``add(x)`` and ``.value``."""

    function: str
    item: Fixed


@dataclass(frozen=True, slots=True)
class TimerField:
    """One time at which a function of the step is called. ``clock``: processing time."""

    clock: bool = False


@dataclass(frozen=True, slots=True)
class TimersField:
    """At most ``most`` times for each key."""

    most: int = ENTRIES_DEFAULT


FieldKind = ScalarField | RingField | ListField | MapField | SetField | AggregateField | TimerField | TimersField
CHILD_KINDS = (ListField, MapField, SetField, TimersField)


def columns_of(name: str, kind: FieldKind) -> tuple[Value, ...]:
    """List the columns of the step's table in which a field is kept; see the head of this module.

    Defaults are not known here: ``absent`` only says that there is one.
    """
    match kind:
        case ScalarField(value, nullable):
            return tuple(_value_columns(name, value, nullable))
        case RingField(item, width):
            ends = Value(name + HEAD, "int32"), Value(name + LENGTH, "int32")
            return (Value(name, item.dtype, width), *ends)
        case TimerField():
            return (Value(name, "int64"),)
        case ListField():
            return Value(name + FIRST, "int64"), Value(name + LENGTH, "int64")
        case MapField() | SetField() | TimersField():
            return (Value(name + LENGTH, "int64"),)
        case AggregateField():
            return tuple(_aggregate_columns(name, kind))


def accumulator(name: str, kind: AggregateField) -> str:
    """Return the column with what is kept of the values of an aggregate."""
    return f"{name}.{kind.function}"


def seen_column(name: str, kind: AggregateField) -> str:
    """Return the column that counts the values of an aggregate."""
    return accumulator(name, kind) + ("" if kind.function == Function.COUNT else ".seen")


def has_high(kind: AggregateField) -> bool:
    """Return whether an aggregate keeps 128 bits, the high ones in a column of their own."""
    return kind.function == Function.MEAN and not isinstance(kind.item, Floating)


def kept_total(kind: AggregateField) -> Whole | Floating:
    """Return the type in which an aggregate keeps its values; of 128 bits, the type of the low ones."""
    if isinstance(kind.item, Floating):
        return Floating()
    unsigned = isinstance(kind.item, Whole) and not kind.item.signed and kind.item.bits == 64
    return Whole(64, signed=not unsigned or has_high(kind))


def _aggregate_columns(name: str, kind: AggregateField) -> Iterator[Value]:
    if kind.function != Function.COUNT:
        yield Value(accumulator(name, kind), kept_total(kind).dtype)
        if has_high(kind):
            yield Value(accumulator(name, kind) + HIGH, "int64")
    yield Value(seen_column(name, kind), "int64")


def timer_column(name: str, kind: FieldKind) -> str:
    """Return the column with the time at which a function is called for a field."""
    return name + NEXT if isinstance(kind, TimersField) else name


def _value_columns(name: str, kind: ValueKind, nullable: bool) -> Iterator[Value]:
    if isinstance(kind, SPANNED):
        yield Value(name, BYTES, absent=None if nullable else b"")
        return
    if nullable:
        yield Value(name + SET, "uint8")
    if isinstance(kind, FIXED):
        yield Value(name, kind.dtype)
    elif isinstance(kind, GROUPED):
        for part, slot in kind.parts:
            yield from _value_columns(f"{name}.{part}", slot.kind, slot.nullable)
    else:
        raise AssertionError(f"{kind_text(kind)} cannot be kept: the hint was refused")


def field_text(kind: FieldKind) -> str:
    """Spell the kind of a field in messages and schemas: ``Ring[int8, 5]``."""
    match kind:
        case ScalarField(value, nullable):
            return kind_text(value, nullable)
        case RingField(item, width):
            return f"Ring[{kind_text(item)}, {width}]"
        case ListField(item):
            return f"List[{kind_text(item.kind, item.nullable)}]"
        case MapField(key, value):
            return f"Map[{kind_text(key)}, {kind_text(value.kind, value.nullable)}]"
        case SetField(key):
            return f"Set[{kind_text(key)}]"
        case AggregateField(function, item):
            return f"Aggregate[{function}, {kind_text(item)}]"
        case TimerField(clock):
            return "ClockTimer" if clock else "Timer"
        case TimersField():
            return "Timers"
