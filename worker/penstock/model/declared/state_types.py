"""``ps.state``: a class whose fields are kept for each key. ``ps.field`` and ``ps.renamed`` say more of one.

The class of the user stays a class of plain values: the kit for tests shows a state as one of its
objects. While a job runs, a function gets a proxy of the row of the key instead.
"""

from dataclasses import dataclass, field
from types import FrameType
from typing import Any, TypeVar, dataclass_transform, overload

from penstock.base.errors import ConfigError
from penstock.base.limits import ENTRIES_MAX
from penstock.base.units import duration_us
from penstock.base.user_code import users_frame
from penstock.contract.graph import TimeKind
from penstock.model.declared.field_kinds import (
    BEGUN,
    FieldKind,
    ScalarField,
    TimerField,
    columns_of,
    field_text,
)
from penstock.model.declared.hints import HintError, field_kind
from penstock.model.declared.record_types import MISSING, check_depth, check_names, field_error, resolved_hints
from penstock.model.declared.source import ClassSource, class_source
from penstock.model.declared.value_kinds import SPANNED, Choice, Item, Struct, Tuple, ValueKind, fits, zero_of
from penstock.model.table_columns import Value

T = TypeVar("T")
STATE_TYPE = "__penstock_state__"  # the attribute of a state's class with its StateType
_RESERVED = ("clear",)


@dataclass(frozen=True, slots=True)
class KeptField:
    """A field of a state: its kind, the value of a new key, and the name that it had before.

    ``default`` is the value of a scalar and None otherwise. ``renamed`` is None if it was not.
    """

    name: str
    kind: FieldKind
    default: object = None
    renamed: str | None = None

    @property
    def columns(self) -> tuple[Value, ...]:
        """List the columns of the step's table; see :mod:`penstock.model.declared.field_kinds`."""
        return columns_of(self.name, self.kind)

    @property
    def begins_as_zeros(self) -> bool:
        """Return whether zeros in all columns are the value of a new key."""
        match self.kind:
            case ScalarField(kind, nullable):
                return _is_zeros(self.default, kind, nullable)
            case TimerField():
                return False  # NO_TIMER
            case _:
                return True

    def __str__(self) -> str:
        """Spell the field as messages show it."""
        return f"{self.name}: {field_text(self.kind)}"


@dataclass(frozen=True, slots=True)
class StateType:
    """A class of states. ``ttl_us`` None: keys do not expire. ``begins``: see BEGUN. Two classes are two types."""

    name: str
    fields: tuple[KeptField, ...]
    ttl_us: int | None
    time: TimeKind
    python: type = field(repr=False)
    place: str = field(compare=False, repr=False)

    def field(self, name: str) -> KeptField:
        """Return the field of that name. It must exist."""
        return next(f for f in self.fields if f.name == name)

    @property
    def begins(self) -> bool:
        """Return whether a new row must get first values: the table then has the column BEGUN."""
        return not all(f.begins_as_zeros for f in self.fields)

    @property
    def columns(self) -> tuple[Value, ...]:
        """List the columns of the step's table in the order of the fields. BEGUN is the last one, if it is needed.

        Child tables, what a TTL needs and the next ones of many times are not listed.
        """
        own = tuple(column for each in self.fields for column in each.columns)
        return (*own, Value(BEGUN, "uint8")) if self.begins else own

    def __str__(self) -> str:
        """Spell the schema as messages show it."""
        return f"{self.name}({', '.join(map(str, self.fields))})"


def _is_zeros(value: object, kind: ValueKind, nullable: bool) -> bool:
    if nullable:
        return value is None
    match kind:
        case Choice(values):
            return value == values[0]
        case Struct():
            return all(_is_zeros(getattr(value, n), s.kind, s.nullable) for n, s in kind.parts)
        case Tuple(items):
            assert isinstance(value, tuple), "the default was checked"
            return all(_is_zeros(v, s.kind, s.nullable) for v, s in zip(value, items, strict=True))
        case _ if isinstance(kind, SPANNED):
            return True  # nothing stored is read as the default
        case _:
            # Zeros are +0.0: repr tells it from -0.0.
            return repr(value) in ("0", "0.0", "False")


@dataclass(frozen=True, slots=True)
class FieldOptions:
    """What ``ps.field`` and ``ps.renamed`` say of a field."""

    default: object = MISSING
    most: int | None = None
    renamed: str | None = None


def field_(*, default: object = MISSING, max: int | None = None) -> Any:  # noqa: A002  the name of the option
    """Say more of a field of a state: its default, and how many entries a key may have at most.

    ``max`` is for ``ps.List``, ``ps.Map``, ``ps.Set`` and ``ps.Timers``. A record that would add
    another entry fails by name.
    """
    return FieldOptions(default, max)


def renamed(old: str, *, default: object = MISSING, max: int | None = None) -> Any:  # noqa: A002
    """Say that the field was named ``old`` in earlier checkpoints; it takes over those values."""
    return FieldOptions(default, max, old)


@overload
@dataclass_transform(kw_only_default=True)
def state(cls: type[T], /) -> type[T]: ...
@overload
def state(*, ttl: str | None = None, time: str = "event") -> Any: ...
def state(cls: Any = None, /, *, ttl: str | None = None, time: str = "event") -> Any:
    """Make a class whose fields are kept for each key of a ``process`` step.

    Fields are single values (numbers, texts, ``ps.Time``, ``ps.Enum[...]``, tuples, records), and
    ``ps.Ring``, ``ps.List``, ``ps.Map``, ``ps.Set``, ``ps.Aggregate``, ``ps.Timer``, ``ps.ClockTimer``
    and ``ps.Timers``. A new key begins with the defaults; a number without one begins as 0, a text as
    "". With ``ttl`` a key is forgotten when nothing was written for so long, by the time of its rows
    or by the clock (``time``). Raises ConfigError, with file and line.
    """
    frame = users_frame()
    source = class_source(frame)
    ttl_us, kind = _ttl(ttl, source), _time(time, source)
    if cls is not None:
        return _made(cls, frame, source, ttl_us, kind)
    return lambda decorated: _made(decorated, frame, source, ttl_us, kind)


def state_type(cls: object) -> StateType | None:
    """Return the type of a state's class, or None if it is none."""
    found: StateType | None = vars(cls).get(STATE_TYPE) if isinstance(cls, type) else None
    return found


def _ttl(ttl: object, source: ClassSource) -> int | None:
    if ttl is None:
        return None
    try:
        found = duration_us(ttl)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{source.place}: ttl: {error}") from None
    if found <= 0:
        raise ConfigError(f"{source.place}: ttl: {ttl!r} forgets each key at once; leave it out to keep keys")
    return found


def _time(time: object, source: ClassSource) -> TimeKind:
    if time not in set(TimeKind):
        raise ConfigError(f"{source.place}: time: {time!r} is not one of {', '.join(TimeKind)}")
    return TimeKind(str(time))


def _made(cls: Any, frame: FrameType, source: ClassSource, ttl_us: int | None, time: TimeKind) -> Any:
    if not isinstance(cls, type):
        raise ConfigError(f"{source.place}: @ps.state decorates a class, not {cls!r}")
    check_names(cls, source, "state")
    hints = resolved_hints(cls, frame, source, "state")
    options = {name: _options(vars(cls).get(name, MISSING)) for name in hints}
    fields = tuple(_field(source, cls, name, hints[name], options[name]) for name in hints)
    if not fields:
        raise ConfigError(f"{source.place}: state {cls.__name__} has no fields; write for example n: int = 0")
    _check_renamed(source, cls, fields)
    for each in fields:
        setattr(cls, each.name, each.default)
    made: Any = dataclass(kw_only=True)(cls)
    setattr(made, STATE_TYPE, StateType(cls.__name__, fields, ttl_us, time, made, source.place))
    return made


def _options(value: object) -> FieldOptions:
    return value if isinstance(value, FieldOptions) else FieldOptions(value)


def _field(source: ClassSource, cls: type, name: str, hint: object, options: FieldOptions) -> KeptField:
    about = f"state {cls.__name__}"
    if name in _RESERVED or name.startswith("_"):
        raise field_error(source, about, name, "the name belongs to the engine; choose another one")
    try:
        _check_most(options.most)
        kind = field_kind(hint, options.most)
        default = _default(kind, options.default)
    except HintError as error:
        raise field_error(source, about, name, error) from None
    return KeptField(name, kind, default, options.renamed)


def _check_most(most: object) -> None:
    if most is None:
        return
    if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= ENTRIES_MAX:
        raise HintError(f"max={most!r} is no bound: write a whole number from 1")


def _default(kind: FieldKind, value: object) -> object:
    """Return the first value of a field. Raises HintError for one that does not fit."""
    if isinstance(value, list | dict | set | bytearray):
        raise HintError(f"a default of {type(value).__name__} can be changed; write a tuple, ps.List, ps.Map or ps.Set")
    if not isinstance(kind, ScalarField):
        if value is MISSING or (value is None and isinstance(kind, TimerField)):
            return None
        what = "is not set" if isinstance(kind, TimerField) else "is empty"
        raise HintError(f"{field_text(kind)} of a new key {what}: it has no default")
    check_depth(Item(kind.kind, kind.nullable))
    if value is MISSING:
        try:
            return None if kind.nullable else zero_of(kind.kind)
        except ValueError as error:
            raise HintError(str(error)) from None
    if not fits(value, kind.kind, kind.nullable):
        raise HintError(f"the default {value!r} is not of type {field_text(kind)}")
    return value


def _check_renamed(source: ClassSource, cls: type, fields: tuple[KeptField, ...]) -> None:
    """Refuse an old name that another field has, or that two fields claim."""
    names = [each.name for each in fields]
    for number, each in enumerate(fields):
        taken = each.renamed in names or each.renamed in [f.renamed for f in fields[:number]]
        if each.renamed is not None and taken:
            what = f"ps.renamed({each.renamed!r}): another field has or had this name"
            raise field_error(source, f"state {cls.__name__}", each.name, what)
