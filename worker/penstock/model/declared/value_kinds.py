"""The kinds of values: what one column of a record, or one value of a state, may be.

A kind has the Arrow type (``arrow``, spelled as ``str`` of an Arrow type), the type of a Python
value (``python``), and the numpy type of a state column (``dtype``). ``dtype`` is ``bytes``
for values of any length and None for a kind that has several columns, or none.

``Item`` is a kind that may be nullable: an item of a list, a field of a tuple.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from penstock.model.table_columns import BYTES

if TYPE_CHECKING:
    from penstock.model.declared.record_types import RecordType

DECIMAL_DIGITS_MAX = 38
DECIMAL_DIGITS, DECIMAL_SCALE = 38, 18  # of a plain decimal.Decimal, as in Spark


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number of ``bits`` bits."""

    bits: int = 64
    signed: bool = True
    python = int

    @property
    def arrow(self) -> str:
        """Return the Arrow type."""
        return self.dtype

    @property
    def dtype(self) -> str:
        """Return the numpy type of a state column."""
        return f"{'int' if self.signed else 'uint'}{self.bits}"

    @property
    def least(self) -> int:
        """Return the smallest number."""
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def most(self) -> int:
        """Return the largest number."""
        return (1 << (self.bits - self.signed)) - 1


@dataclass(frozen=True, slots=True)
class Floating:
    """A floating-point number of 64 or 32 bits."""

    bits: int = 64
    python = float

    @property
    def arrow(self) -> str:
        """Return the Arrow type."""
        return "double" if self.bits == 64 else "float"

    @property
    def dtype(self) -> str:
        """Return the numpy type of a state column."""
        return f"float{self.bits}"


@dataclass(frozen=True, slots=True)
class Boolean:
    """True or false; a byte in a state column."""

    python = bool
    arrow = "bool"
    dtype = "uint8"


@dataclass(frozen=True, slots=True)
class Text:
    """A text."""

    python = str
    arrow = "string"
    dtype = BYTES


@dataclass(frozen=True, slots=True)
class Binary:
    """Bytes."""

    python = bytes
    arrow = "binary"
    dtype = BYTES


@dataclass(frozen=True, slots=True)
class Instant:
    """A point in time: whole microseconds since 1970 in UTC. A column of it is a timestamp."""

    python = int
    arrow = "timestamp[us]"
    dtype = "int64"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few texts. It is a text in records and columns, and a code (0, 1, ...) in a state."""

    values: tuple[str, ...]
    python = str
    arrow = "string"

    @property
    def dtype(self) -> str:
        """Return the numpy type of the codes."""
        return "int8" if len(self.values) <= 127 else "int16"


@dataclass(frozen=True, slots=True)
class DecimalNumber:
    """A decimal number of at most ``digits`` digits, ``scale`` of them behind the point.

    Functions with it are interpreted. A state keeps the 16 bytes of ``decimal128``.
    """

    digits: int = DECIMAL_DIGITS
    scale: int = DECIMAL_SCALE
    python = Decimal
    dtype = BYTES

    @property
    def arrow(self) -> str:
        """Return the Arrow type."""
        return f"decimal128({self.digits}, {self.scale})"


@dataclass(frozen=True, slots=True)
class Struct:
    """A record within a record."""

    record: "RecordType"
    dtype = None

    @property
    def python(self) -> type:
        """Return the user's class."""
        return self.record.python

    @property
    def arrow(self) -> str:
        """Return the Arrow type."""
        return struct_text((f.name, f.kind) for f in self.record.fields)

    @property
    def parts(self) -> "tuple[tuple[str, Item], ...]":
        """List the fields by name."""
        return tuple((f.name, Item(f.kind, f.nullable)) for f in self.record.fields)


@dataclass(frozen=True, slots=True)
class Tuple:
    """A tuple of fixed length: a struct with the fields ``_1``, ``_2``, ... as in Spark."""

    items: "tuple[Item, ...]"
    python = tuple
    dtype = None

    @property
    def arrow(self) -> str:
        """Return the Arrow type."""
        return struct_text((name, slot.kind) for name, slot in self.parts)

    @property
    def parts(self) -> "tuple[tuple[str, Item], ...]":
        """List the items by the name of their field."""
        return tuple((f"_{n}", slot) for n, slot in enumerate(self.items, 1))


@dataclass(frozen=True, slots=True)
class Listed:
    """A list in a record. A state has ``ps.List`` or ``ps.Ring`` instead, which are bounded."""

    item: "Item"
    python = list
    dtype = None

    @property
    def arrow(self) -> str:
        """Return the Arrow type."""
        return f"list<item: {self.item.kind.arrow}>"


@dataclass(frozen=True, slots=True)
class Mapped:
    """A dict in a record. A state has ``ps.Map`` instead."""

    key: "ValueKind"
    value: "Item"
    python = dict
    dtype = None

    @property
    def arrow(self) -> str:
        """Return the Arrow type."""
        return f"map<{self.key.arrow}, {self.value.kind.arrow}>"


Fixed = Whole | Floating | Boolean | Instant | Choice  # one state column of a numpy type
Spanned = Text | Binary | DecimalNumber  # one state column of any length
Grouped = Struct | Tuple  # a state column for each part
ValueKind = Fixed | Spanned | Grouped | Listed | Mapped
FIXED = (Whole, Floating, Boolean, Instant, Choice)
SPANNED = (Text, Binary, DecimalNumber)
GROUPED = (Struct, Tuple)


@dataclass(frozen=True, slots=True)
class Item:
    """A place for a value of one kind, or for None if it is nullable."""

    kind: ValueKind
    nullable: bool = False


def struct_text(fields: "object") -> str:
    """Spell the Arrow type of a struct. ``fields`` are names and kinds."""
    return "struct<" + ", ".join(f"{name}: {kind.arrow}" for name, kind in fields) + ">"  # type: ignore[attr-defined]


def zero_of(kind: ValueKind) -> object:
    """Return the value with which a state field of this kind begins if it has no default.

    Raises ValueError for a kind that has none: it needs a default.
    """
    match kind:
        case Whole() | Instant():
            return 0
        case Floating():
            return 0.0
        case Boolean():
            return False
        case Text():
            return ""
        case Binary():
            return b""
        case DecimalNumber():
            return Decimal(0)
        case Tuple(items):
            return tuple(None if slot.nullable else zero_of(slot.kind) for slot in items)
        case _:
            raise ValueError("it has no value to begin with: give a default, or allow None (... | None = None)")


def fits(value: object, kind: ValueKind, nullable: bool = False) -> bool:
    """Say whether a Python value may stand in a place of this kind. Nothing is converted.

    A whole number fits a float if it is the same number there.
    """
    if value is None:
        return nullable
    match kind:
        case Boolean():
            return isinstance(value, bool)
        case Whole():
            return _is_whole(value) and kind.least <= value <= kind.most  # type: ignore[operator]
        case Instant():
            return _is_whole(value) and -(1 << 63) < value < 1 << 63  # type: ignore[operator]
        case Floating():
            return isinstance(value, float) or (_is_whole(value) and int(float(value)) == value)  # type: ignore[arg-type]
        case Choice(values):
            return isinstance(value, str) and value in values
        case Tuple(items):
            return isinstance(value, tuple) and len(value) == len(items) and all(map(_in_slot, value, items))
        case Listed(item):
            return isinstance(value, list) and all(_in_slot(v, item) for v in value)
        case Mapped(key, slot):
            return isinstance(value, dict) and all(fits(k, key) and _in_slot(v, slot) for k, v in value.items())
        case _:
            return isinstance(value, kind.python)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _in_slot(value: object, slot: Item) -> bool:
    return fits(value, slot.kind, slot.nullable)


def _spelled(text: str) -> str:
    """Return a text as a list shows it: in quotes if it may be taken for two, or for the end of the list."""
    return repr(text) if any(mark in text for mark in ",[]()'\"") else text


def kind_text(kind: ValueKind, nullable: bool = False) -> str:
    """Spell a kind in messages and schemas: ``int64``, ``Enum[A, B]``, ``string | None``."""
    match kind:
        case Choice(values):
            text = f"Enum[{', '.join(map(_spelled, values))}]"
        case Instant():
            text = "Time"
        case Tuple(items):
            text = f"tuple[{', '.join(kind_text(s.kind, s.nullable) for s in items)}]"
        case Struct(record):
            fields = ", ".join(f"{f.name}: {kind_text(f.kind, f.nullable)}" for f in record.fields)
            text = f"{record.name}({fields})"
        case Listed(item):
            text = f"list[{kind_text(item.kind, item.nullable)}]"
        case Mapped(key, slot):
            text = f"dict[{kind_text(key)}, {kind_text(slot.kind, slot.nullable)}]"
        case _:
            text = kind.arrow
    return f"{text} | None" if nullable else text
