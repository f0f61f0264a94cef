"""Python hints of records and states, and the names for hints: ``ps.int8``, ``ps.Ring[ps.int8, 5]``.

A type checker reads each of these names as a Python type. At run time the name is an ``Annotated``
hint that also has the kind: ``ps.int8`` is ``Annotated[int, Whole(8)]``.
"""

import dataclasses
import decimal
import types
import typing
from typing import TYPE_CHECKING, Annotated, Any, Literal, NewType

from penstock.base.errors import ConfigError
from penstock.base.limits import ENUM_VALUES_MAX, RING_WIDTH_MAX
from penstock.base.user_code import caller_place
from penstock.contract.graph import Function
from penstock.model.declared import field_kinds, value_kinds
from penstock.model.declared.field_kinds import FieldKind
from penstock.model.declared.value_kinds import (
    DECIMAL_DIGITS_MAX,
    FIXED,
    GROUPED,
    Binary,
    Boolean,
    Choice,
    Floating,
    Instant,
    Item,
    Listed,
    Mapped,
    Struct,
    Text,
    Tuple,
    ValueKind,
    Whole,
    kind_text,
)

RECORD_TYPE = "__penstock_record__"  # the attribute of a record's class with its RecordType

int8 = Annotated[int, Whole(8)]
int16 = Annotated[int, Whole(16)]
int32 = Annotated[int, Whole(32)]
int64 = Annotated[int, Whole(64)]
uint8 = Annotated[int, Whole(8, signed=False)]
uint16 = Annotated[int, Whole(16, signed=False)]
uint32 = Annotated[int, Whole(32, signed=False)]
uint64 = Annotated[int, Whole(64, signed=False)]
float32 = Annotated[float, Floating(32)]
float64 = Annotated[float, Floating(64)]
Time = Annotated[int, Instant()]

_PLAIN: dict[object, ValueKind] = {
    int: Whole(),
    float: Floating(),
    bool: Boolean(),
    str: Text(),
    bytes: Binary(),
    decimal.Decimal: value_kinds.DecimalNumber(),
}
_ADVICE = {
    list: "name the type of its items: list[int]",
    tuple: "name the types of its items: tuple[int, str]",
    dict: "name the types of its keys and values: dict[str, int]",
    set: "there are no sets in records; write list[T], or ps.Set[T] in a state",
    object: "write a type such as int or str",
    Any: "write a type such as int or str",
}


@dataclasses.dataclass(frozen=True, slots=True)
class OutHint:
    """What a function emits: records of ``main``, and of other classes by the name of their output."""

    main: object
    sides: tuple[tuple[str, object], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class _FieldHint:
    """A field kind whose items are still hints, because a record may be among them.

    The types of the items tell 2 from 2.0: ``typing`` gives equal hints the same object.
    """

    name: str
    items: tuple[object, ...]
    types: tuple[type, ...]


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import Generic, Protocol, Self, TypeVar, overload

    T = TypeVar("T")
    K = TypeVar("K")
    V = TypeVar("V")
    W = TypeVar("W")
    _BARE: tuple[type, ...]
    T_contra = TypeVar("T_contra", contravariant=True)
    Timer = int | None
    ClockTimer = int | None

    class _Kept:
        """A field that a function uses as it is. The constructor of a state takes what its setter takes."""

        def __get__(self, state: object, cls: object) -> Self: ...

    class Decimal(decimal.Decimal, Generic[T, W]):
        """A decimal number: ``ps.Decimal[12, 2]`` has 12 digits, 2 of them behind the point."""

    class Ring(_Kept, Generic[T, W]):
        """The newest values, of a number, bool, Time or Enum: ``ps.Ring[ps.int8, 5]``."""

        def __set__(self, state: object, values: "Sequence[T] | Ring[T, W]") -> None: ...
        def append(self, value: T) -> T:
            """Add a value. Returns the one that fell out, or zero while the ring is not full."""

        def __len__(self) -> int: ...
        def __getitem__(self, index: int) -> T: ...
        def __iter__(self) -> Iterator[T]: ...
        def clear(self) -> None:
            """Remove all values."""

    class List(_Kept, Generic[T]):
        """A list for each key, bounded by ``ps.field(max=...)``: ``ps.List[Order]``."""

        def __set__(self, state: object, values: "Sequence[T] | List[T]") -> None: ...
        def append(self, value: T) -> None:
            """Add an item at the end."""

        def popleft(self) -> T:
            """Remove the first item and return it."""

        def __len__(self) -> int: ...
        def __getitem__(self, index: int) -> T: ...
        def __setitem__(self, index: int, value: T) -> None: ...
        def __iter__(self) -> Iterator[T]: ...
        def clear(self) -> None:
            """Remove all items."""

    class Map(_Kept, Generic[K, V]):
        """A map for each key, bounded by ``ps.field(max=...)``: ``ps.Map[str, int]``."""

        def __set__(self, state: object, values: "Mapping[K, V] | Map[K, V]") -> None: ...
        @overload
        def get(self, key: K) -> V | None: ...
        @overload
        def get(self, key: K, default: V) -> V: ...
        def get(self, key: K, default: V | None = None) -> V | None:
            """Return the value of a key, or ``default``."""

        def pop(self, key: K, default: V | None = None) -> V | None:
            """Remove a key and return its value, or ``default``."""

        def items(self) -> Iterator[tuple[K, V]]:
            """Go through the entries, rising by key."""

        def __len__(self) -> int: ...
        def __contains__(self, key: K) -> bool: ...
        def __getitem__(self, key: K) -> V: ...
        def __setitem__(self, key: K, value: V) -> None: ...
        def __delitem__(self, key: K) -> None: ...
        def __iter__(self) -> Iterator[K]: ...
        def clear(self) -> None:
            """Remove all entries."""

    class Set(_Kept, Generic[K]):
        """A set for each key, bounded by ``ps.field(max=...)``: ``ps.Set[str]``."""

        def __set__(self, state: object, values: "Collection[K] | Set[K]") -> None: ...
        def add(self, key: K) -> None:
            """Add an entry."""

        def discard(self, key: K) -> None:
            """Remove an entry if it is there."""

        def __len__(self) -> int: ...
        def __contains__(self, key: K) -> bool: ...
        def __iter__(self) -> Iterator[K]: ...
        def clear(self) -> None:
            """Remove all entries."""

    class Aggregate(Generic[T]):
        """A built-in aggregate for each key: ``ps.Aggregate[ps.mean]``."""

        value: Any

        def add(self, value: Any) -> None:
            """Add a value."""

        def clear(self) -> None:
            """Forget all values."""

    class Timers(_Kept):
        """Any number of times for each key, bounded by ``ps.field(max=...)``."""

        def __set__(self, state: object, values: "Sequence[int] | Timers") -> None: ...
        def add(self, time: int) -> None:
            """Set a timer."""

        def discard(self, time: int) -> None:
            """Remove a timer if it is set."""

        def __len__(self) -> int: ...
        def __contains__(self, time: int) -> bool: ...
        def __iter__(self) -> Iterator[int]: ...

    class _Emits(Protocol[T_contra]):
        def emit(self, record: T_contra) -> None: ...
        def to(self, output: str, record: object) -> None: ...

    class Out(_Emits[T_contra], Protocol[T_contra]):
        """Takes what a function emits: ``out: ps.Out[Alert]``."""

else:

    class _Enum:
        """A few texts: ``ps.Enum["NEW", "OLD"]``. ``typing.Literal`` means the same."""

        def __getitem__(self, texts):
            return Annotated[str, _placed(_choice, texts if isinstance(texts, tuple) else (texts,))]

    class _Decimal:
        """A decimal number: ``ps.Decimal[12, 2]`` has 12 digits, 2 of them behind the point."""

        def __getitem__(self, sizes):
            return Annotated[decimal.Decimal, _placed(_decimal, sizes)]

    class _Field:
        """A kind of state field with items in brackets."""

        def __init__(self, name):
            self._name = name

        def __getitem__(self, items):
            items = items if isinstance(items, tuple) else (items,)
            return Annotated[object, _FieldHint(self._name, items, tuple(map(type, items)))]

        def __repr__(self):
            return f"ps.{self._name}"

    class _Out:
        """Takes what a function emits: ``out: ps.Out[Alert, {"rare": Rare}]``."""

        def __getitem__(self, emitted):
            main, sides = emitted if isinstance(emitted, tuple) else (emitted, {})
            return Annotated[object, OutHint(main, tuple(dict(sides).items()))]

        def __repr__(self):
            return "ps.Out"

    Enum, Decimal, Out = _Enum(), _Decimal(), _Out()
    Ring, List, Map, Set, Aggregate = (_Field(n) for n in ("Ring", "List", "Map", "Set", "Aggregate"))
    Timer = Annotated[int | None, field_kinds.TimerField()]
    ClockTimer = Annotated[int | None, field_kinds.TimerField(clock=True)]
    Timers = Annotated[object, field_kinds.TimersField()]
    _BARE = (_Field, _Out, _Enum, _Decimal)


def _placed(make: "Callable[[Any], ValueKind]", arguments: object) -> ValueKind:
    """Make a kind while a hint is evaluated. An error then gets the place of the hint here."""
    try:
        return make(arguments)
    except HintError as error:
        raise ConfigError(f"{caller_place()}: {error}") from None


def _decimal(sizes: object) -> value_kinds.DecimalNumber:
    match sizes:
        case (int(digits), int(scale)) if 1 <= digits <= DECIMAL_DIGITS_MAX and 0 <= scale <= digits:
            return value_kinds.DecimalNumber(digits, scale)
    raise HintError(f"Decimal[{sizes}]: write its digits (1 to 38), and how many of them are behind the point")


class HintError(ConfigError):
    """A hint that is not a type of a column or of a field. The caller adds file and line."""


# --- Values -----------------------------------------------------------------------------------


def value_slot(hint: object) -> Item:
    """Read the hint of a value. Raises HintError for what no column can hold."""
    options = _options(hint)
    plain = [o for o in options if o is not types.NoneType]
    if len(plain) != 1:
        raise HintError(f"{_spell(hint)} is no type of a column: only None may stand beside a type")
    return Item(_value_kind(plain[0]), nullable=len(options) > 1)


def _options(hint: object) -> tuple[object, ...]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(dict.fromkeys(o for option in typing.get_args(hint) for o in _options(option)))
    return (types.NoneType,) if hint is None else (hint,)


def _value_kind(hint: object) -> ValueKind:
    plain = hint.__supertype__ if isinstance(hint, NewType) else hint
    try:
        if plain in _PLAIN:
            return _PLAIN[plain]
    except TypeError:  # not hashable
        raise _refused(hint) from None
    origin, arguments = typing.get_origin(plain), typing.get_args(plain)
    if origin is Annotated:
        return _annotated(arguments)
    if origin is Literal:
        return _choice(arguments)
    if origin is tuple and arguments and Ellipsis not in arguments:
        return Tuple(tuple(map(value_slot, arguments)))
    if origin is list:
        return Listed(value_slot(arguments[0]))
    if origin is dict:
        return _mapped(*arguments)
    record = vars(plain).get(RECORD_TYPE) if isinstance(plain, type) else None
    if record is not None:
        return Struct(record)
    raise _refused(hint)


def _annotated(arguments: tuple[object, ...]) -> ValueKind:
    for extra in arguments[1:]:
        if isinstance(extra, (*FIXED, value_kinds.DecimalNumber)):
            return extra
        if isinstance(extra, (_FieldHint, field_kinds.TimerField, field_kinds.TimersField, OutHint)):
            raise HintError(f"{_spell_annotation(extra)} is a field of a state: no record has it")
    slot = value_slot(arguments[0])
    if slot.nullable:
        raise HintError("write None outside of Annotated[...]")
    return slot.kind


def _choice(texts: tuple[object, ...]) -> Choice:
    wrong = [t for t in texts if not isinstance(t, str)]
    if wrong:
        raise HintError(f"an Enum has texts, not {wrong[0]!r}")
    twice = next((t for n, t in enumerate(texts) if t in texts[:n]), None)
    if twice is not None:
        raise HintError(f"the Enum names {twice!r} twice")
    if len(texts) > ENUM_VALUES_MAX:
        raise HintError(f"the Enum has {len(texts)} texts; at most {ENUM_VALUES_MAX} are allowed")
    return Choice(tuple(str(t) for t in texts))


def _mapped(key_hint: object, value_hint: object) -> Mapped:
    key = value_slot(key_hint)
    if key.nullable:
        raise HintError("keys of a dict are never None")
    return Mapped(key.kind, value_slot(value_hint))


def _refused(hint: object) -> HintError:
    known = "int, float, bool, str, bytes, Decimal, ps.Time, ps.int8 ..., ps.Enum[...], tuples, lists, dicts, records"
    plain = typing.get_origin(hint) or hint
    advice = _ADVICE.get(plain) if isinstance(plain, type) or plain is Any else None
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        advice = f"decorate {hint.__name__} with @ps.record"
    if plain is tuple:
        advice = "a tuple has a fixed length: tuple[int, int]; for any length write list[T]"
    return HintError(f"{_spell(hint)} is no type of a column: {advice or f'known are {known}'}")


def _spell(hint: object) -> str:
    if isinstance(hint, type) and typing.get_origin(hint) is None:
        return hint.__name__
    return str(hint).removeprefix("typing.")


# --- Fields of a state ------------------------------------------------------------------------


def field_kind(hint: object, most: int | None) -> FieldKind:
    """Read the hint of a state field. ``most`` is its ``ps.field(max=...)``, if it has one.

    Raises HintError for what no state can keep.
    """
    kind = _field_kind(hint)
    if most is None:
        return kind
    if not isinstance(kind, field_kinds.CHILD_KINDS):
        raise HintError(f"max= bounds ps.List, ps.Map, ps.Set and ps.Timers, not {field_kinds.field_text(kind)}")
    return dataclasses.replace(kind, most=most)  # noqa: TID251  one of four classes


def _field_kind(hint: object) -> FieldKind:
    if isinstance(hint, _BARE):
        raise HintError(f"{hint!r} needs its items in brackets, like ps.Ring[ps.int8, 5] or ps.List[int]")
    if typing.get_origin(hint) is Annotated:
        for extra in typing.get_args(hint)[1:]:
            if isinstance(extra, (field_kinds.TimerField, field_kinds.TimersField)):
                return extra
            if isinstance(extra, _FieldHint):
                made: FieldKind = _MAKERS[extra.name](*_counted(extra))
                return made
    slot = value_slot(hint)
    check_keepable(slot.kind)
    return field_kinds.ScalarField(slot.kind, slot.nullable)


_ITEMS = {"Ring": 2, "List": 1, "Map": 2, "Set": 1, "Aggregate": (1, 2)}


def _counted(hint: _FieldHint) -> tuple[Any, ...]:
    wanted = _ITEMS[hint.name]
    allowed = wanted if isinstance(wanted, tuple) else (wanted,)
    if len(hint.items) not in allowed:
        raise HintError(f"{_spell_annotation(hint)}: it takes {allowed[0]} items in brackets")
    return hint.items


def _ring(item: object, width: object) -> field_kinds.RingField:
    kind = _kept_slot(item)
    if kind.nullable or not isinstance(kind.kind, FIXED):
        raise HintError(
            f"a Ring keeps numbers, bools, ps.Time and ps.Enum, not {kind_text(kind.kind, kind.nullable)}; "
            "for other values write ps.List"
        )
    width = typing.get_args(width)[0] if typing.get_origin(width) is Literal else width
    if not isinstance(width, int) or isinstance(width, bool) or not 1 <= width <= RING_WIDTH_MAX:
        raise HintError(f"a Ring keeps 1 to {RING_WIDTH_MAX} values, not {width!r}")
    return field_kinds.RingField(kind.kind, width)


def _list(item: object) -> field_kinds.ListField:
    return field_kinds.ListField(_kept_slot(item))


def _map(key: object, value: object) -> field_kinds.MapField:
    return field_kinds.MapField(_subkey(key), _kept_slot(value))


def _set(key: object) -> field_kinds.SetField:
    return field_kinds.SetField(_subkey(key))


def _aggregate(function: object, item: object = float) -> field_kinds.AggregateField:
    name = str(getattr(function, "__name__", function)).removesuffix("_")
    if name not in set(Function):
        raise HintError(f"Aggregate[{name}]: write ps.count, ps.sum, ps.min, ps.max, ps.mean or ps.last")
    slot = value_slot(item)
    if slot.nullable or not isinstance(slot.kind, FIXED) or isinstance(slot.kind, Choice):
        raise HintError(f"an Aggregate takes numbers, bools and ps.Time, not {kind_text(slot.kind, slot.nullable)}")
    if name in (Function.SUM, Function.MEAN) and isinstance(slot.kind, (Boolean, Instant)):
        raise HintError(f"a {name} adds numbers, not {kind_text(slot.kind)}; give it an int: add(int(x))")
    return field_kinds.AggregateField(name, slot.kind)


_MAKERS: dict[str, Any] = {"Ring": _ring, "List": _list, "Map": _map, "Set": _set, "Aggregate": _aggregate}


def _subkey(hint: object) -> ValueKind:
    slot = value_slot(hint)
    if slot.nullable:
        raise HintError("keys of a ps.Map or ps.Set are never None")
    if isinstance(slot.kind, (Listed, Mapped, *GROUPED)):
        raise HintError(f"{kind_text(slot.kind)} cannot be the key of a ps.Map or ps.Set")
    return slot.kind


def _kept_slot(hint: object) -> Item:
    slot = value_slot(hint)
    check_keepable(slot.kind)
    return slot


def check_keepable(kind: ValueKind) -> None:
    """Raise HintError for a list or dict, also within a tuple or record: nothing would bound it."""
    if isinstance(kind, Listed):
        raise HintError("a list in a state has no bound: write ps.List[T] (ps.field(max=...)), or ps.Ring[T, n]")
    if isinstance(kind, Mapped):
        raise HintError("a dict in a state has no bound: write ps.Map[K, V] (ps.field(max=...))")
    if isinstance(kind, GROUPED):
        for _, slot in kind.parts:
            check_keepable(slot.kind)


def _spell_annotation(extra: object) -> str:
    if isinstance(extra, _FieldHint):
        return f"ps.{extra.name}[{', '.join(_spell(i) for i in extra.items)}]"
    if isinstance(extra, OutHint):
        return "ps.Out[...]"
    return (
        f"ps.{field_kinds.field_text(extra)}"
        if isinstance(extra, field_kinds.TimerField | field_kinds.TimersField)
        else str(extra)
    )
