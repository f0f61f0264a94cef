"""Kinds of values inside of a compiled function, and how each is held in LLVM.

A kind is held in leaves, the LLVM values that it needs: a text has its address and its length, a value that
may be None has a bit and the leaves of the value. So tuples and records need no memory of their own.
A view has no leaves: it stands for the record, the state or the output of the call.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types

from penstock.model.declared.field_kinds import RingField
from penstock.model.declared.record_types import RecordType
from penstock.model.declared.state_types import StateType

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()
INT_LEAST, INT_MOST = -(1 << 63), (1 << 63) - 1


class NotKnownError(Exception):
    """Compiled functions do not know what is said here. The text is for the user, without a place."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A kind without parts. ``leaves`` are LLVM types."""

    name: str
    leaves: tuple[Any, ...] = field(repr=False, compare=False)


INT: Final = Plain("int", (I64,))
FLOAT: Final = Plain("float", (F64,))
BOOL: Final = Plain("bool", (I1,))
TEXT: Final = Plain("str", (I64, I64))  # address and bytes
BINARY: Final = Plain("bytes", (I64, I64))
NONE: Final = Plain("None", ())


@dataclass(frozen=True, slots=True)
class Code:
    """A text of an Enum, held as its code."""

    values: tuple[str, ...]

    @property
    def leaves(self) -> tuple[Any, ...]:
        """Return the LLVM types."""
        return (I64,)


@dataclass(frozen=True, slots=True)
class Maybe:
    """A value or None: a bit that says whether there is one, and the value."""

    kind: "Kind"

    @property
    def leaves(self) -> tuple[Any, ...]:
        """Return the LLVM types."""
        return (I1, *self.kind.leaves)


@dataclass(frozen=True, slots=True)
class Group:
    """A tuple, or a record that the function has made: ``record`` says of which class."""

    items: "tuple[Kind, ...]"
    record: RecordType | None = None

    @property
    def leaves(self) -> tuple[Any, ...]:
        """Return the LLVM types of all items."""
        return tuple(leaf for item in self.items for leaf in item.leaves)


@dataclass(frozen=True, slots=True)
class ArrayPart:
    """A part of a constant array that is held as the number of its first item."""

    name: str  # of the LLVM global
    kind: Plain
    shape: tuple[int, ...]

    @property
    def leaves(self) -> tuple[Any, ...]:
        """Return the LLVM types."""
        return (I64,)


@dataclass(frozen=True, slots=True)
class RecordView:
    """The record of the call."""

    record: RecordType
    leaves = ()


@dataclass(frozen=True, slots=True)
class StateView:
    """The state of the record's key."""

    state: StateType
    leaves = ()


@dataclass(frozen=True, slots=True)
class RingView:
    """A ring of the state."""

    name: str
    ring: RingField
    leaves = ()


@dataclass(frozen=True, slots=True)
class OutView:
    """What the function emits to: records of ``main``, and of ``sides`` by the name of an output."""

    main: RecordType
    sides: tuple[tuple[str, RecordType], ...] = ()
    leaves = ()


@dataclass(frozen=True, slots=True)
class Static:
    """An object that is known when the function is built: a module, a function, a class."""

    leaves = ()


Kind = Plain | Code | Maybe | Group | ArrayPart | RecordView | StateView | RingView | OutView | Static
VIEWS = (RecordView, StateView, RingView, OutView, Static)


class _Unknown:
    """The ``known`` of a value that is not known when the function is built."""


UNKNOWN: Final = _Unknown()


@dataclass(frozen=True, slots=True)
class Held:
    """A value: its kind, its leaves in LLVM, and the Python value if that is known at build time."""

    kind: Kind
    leaves: tuple[Any, ...] = ()
    known: Any = UNKNOWN

    @property
    def only(self) -> Any:
        """Return the one leaf."""
        (leaf,) = self.leaves
        return leaf

    @property
    def is_known(self) -> bool:
        """Return whether the Python value is known at build time."""
        return self.known is not UNKNOWN


NOTHING: Final = Held(NONE, (), None)


def items_of(value: Held) -> tuple[Held, ...]:
    """Return the items of a tuple or record."""
    assert isinstance(value.kind, Group), "only groups have items"
    known = value.known if value.is_known else [UNKNOWN] * len(value.kind.items)
    found, at = [], 0
    for kind, each in zip(value.kind.items, known, strict=True):
        found.append(Held(kind, value.leaves[at : at + len(kind.leaves)], each))
        at += len(kind.leaves)
    return tuple(found)


def group(items: tuple[Held, ...], record: RecordType | None = None) -> Held:
    """Make a tuple or record of its items."""
    kind = Group(tuple(item.kind for item in items), record)
    known = tuple(item.known for item in items) if record is None and all(i.is_known for i in items) else UNKNOWN
    return Held(kind, tuple(leaf for item in items for leaf in item.leaves), known)


def joined(one: Kind, other: Kind) -> Kind:
    """Return the kind that holds values of both. Raises NotKnownError if there is none."""
    if one == other:
        return one
    if NONE in (one, other):
        some = one if other == NONE else other
        if not isinstance(some, VIEWS):
            return some if isinstance(some, Maybe) else Maybe(some)
    elif isinstance(one, Maybe) or isinstance(other, Maybe):
        inner = [kind.kind if isinstance(kind, Maybe) else kind for kind in (one, other)]
        return Maybe(joined(inner[0], inner[1]))
    elif isinstance(one, Group) and isinstance(other, Group) and _are_alike(one, other):
        return Group(tuple(map(joined, one.items, other.items)), one.record)
    raise NotKnownError(f"a value is {spelled(one)} in one place and {spelled(other)} in another")


def _are_alike(one: Group, other: Group) -> bool:
    return one.record == other.record and len(one.items) == len(other.items)


def spelled(kind: Kind) -> str:
    """Spell a kind for users."""
    match kind:
        case Plain(name):
            return name
        case Code():
            return "a text of an Enum"
        case Maybe(inner):
            return f"{spelled(inner)} | None"
        case Group(items, record):
            return record.name if record else f"tuple[{', '.join(map(spelled, items))}]"
        case ArrayPart():
            return "an array"
        case RecordView(record):
            return record.name
        case StateView(state):
            return state.name
        case RingView():
            return "a ring"
        case OutView():
            return "out"
        case Static():
            return "an object"
