"""``ps.record``: a frozen dataclass whose fields are the columns of a stream."""

import dataclasses
import inspect
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

from penstock.base.errors import ConfigError
from penstock.base.limits import RECORD_DEPTH_MAX, RECORD_FIELDS_MAX
from penstock.base.user_code import named, users_frame
from penstock.model.declared.hints import RECORD_TYPE, HintError, value_slot
from penstock.model.declared.source import ClassSource, class_source
from penstock.model.declared.value_kinds import Item, Listed, Mapped, Struct, Tuple, ValueKind, fits, kind_text

T = TypeVar("T")
_MUTABLE = (list, dict, set, bytearray)
_HIDDEN = "__"


class Missing:
    """The default of a field that has none. There is one of it, MISSING."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = Missing()


@dataclass(frozen=True, slots=True)
class RecordField:
    """A field of a record, which is a column. ``default`` is MISSING if it has none."""

    name: str
    kind: ValueKind
    nullable: bool = False
    default: object = MISSING


@dataclass(frozen=True, slots=True)
class RecordType:
    """A class of records: its name, its fields in order, the class itself, and where it is written.

    Two classes are two types, also if their names and fields are equal: a function takes one of them.
    """

    name: str
    fields: tuple[RecordField, ...]
    python: type = field(repr=False)
    place: str = field(compare=False, repr=False)

    def field(self, name: str) -> RecordField:
        """Return the field of that name. It must exist."""
        return next(f for f in self.fields if f.name == name)

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """List the columns: names and Arrow types."""
        return tuple((f.name, f.kind.arrow) for f in self.fields)

    def __str__(self) -> str:
        """Spell the schema as messages show it."""
        return f"{self.name}({', '.join(f'{f.name}: {kind_text(f.kind, f.nullable)}' for f in self.fields)})"


if TYPE_CHECKING:

    @dataclass_transform(frozen_default=True)
    def record(cls: type[T]) -> type[T]:
        """Make a frozen dataclass whose fields are columns."""

else:

    def record(cls):
        """Make a frozen dataclass whose fields are columns; their types come from the hints.

        Hints are ``int``, ``float``, ``bool``, ``str``, ``bytes``, ``decimal.Decimal``, ``ps.int8`` and
        its like, ``ps.float32``, ``ps.Time``, ``ps.Enum[...]``, tuples, lists and dicts of these, and
        other records. A column may be null only where the hint has ``| None``. Raises ConfigError,
        with file and line, for any other hint and for a default that does not fit.
        """
        frame = users_frame()
        source = class_source(frame)
        if not isinstance(cls, type):
            raise ConfigError(f"{source.place}: @ps.record decorates a class, not {cls!r}; write it without ()")
        check_names(cls, source, "record")
        defaults = {n: _default(source, cls, n) for n in _own_hints(cls)}
        try:
            made = dataclass(frozen=True, slots=True)(cls)
        except TypeError as error:  # a field without default behind one that has a default
            raise ConfigError(f"{source.place}: record {cls.__name__}: {error}") from None
        made.__module__ = cls.__module__
        hints = resolved_hints(made, frame, source, "record")
        fields = tuple(_field(source, made, f, hints[f.name], defaults) for f in dataclasses.fields(made))
        if not fields:
            raise ConfigError(f"{source.place}: record {cls.__name__} has no fields; write for example n: int")
        setattr(made, RECORD_TYPE, RecordType(made.__name__, fields, made, source.place))
        return made


def record_type(cls: object) -> RecordType | None:
    """Return the type of a record's class, or None if it is none."""
    found: RecordType | None = vars(cls).get(RECORD_TYPE) if isinstance(cls, type) else None
    return found


def _own_hints(cls: type) -> Mapping[str, object]:
    return inspect.get_annotations(cls)


def check_names(cls: type, source: ClassSource, what: str) -> None:
    """Raise ConfigError for two fields of one name, and for names of the engine's own."""
    about = f"{what} {cls.__name__}"
    twice = source.twice()
    if twice is not None:
        raise ConfigError(f"{source.place_of(twice)}: {about}: two fields are named {twice!r}")
    names = _own_hints(cls)
    if len(names) > RECORD_FIELDS_MAX:
        raise ConfigError(f"{source.place}: {about} has {len(names)} fields; at most {RECORD_FIELDS_MAX} are allowed")
    for name in names:
        if name.startswith(_HIDDEN):
            raise field_error(source, about, name, f"names that begin with {_HIDDEN} belong to the engine")


def resolved_hints(cls: type, frame: FrameType, source: ClassSource, what: str) -> dict[str, Any]:
    """Return the hints of a class, with names in texts looked up. Raises ConfigError if one fails."""
    try:
        return typing.get_type_hints(cls, localns=dict(frame.f_locals), include_extras=True)
    except Exception as error:  # a hint in quotes is code of the user
        raise ConfigError(f"{source.place}: {what} {cls.__name__}: its hints cannot be read: {named(error)}") from error


def field_error(source: ClassSource, what: str, name: str, text: object) -> ConfigError:
    """Make the error of one field, with its place."""
    return ConfigError(f"{source.place_of(name)}: {what}: field {name!r}: {text}")


def _default(source: ClassSource, cls: type, name: str) -> object:
    """Return the default of a field as written; refuse one that could be changed."""
    value = vars(cls).get(name, MISSING)
    about = f"record {cls.__name__}"
    if isinstance(value, dataclasses.Field):
        if value.default_factory is not dataclasses.MISSING:
            raise field_error(source, about, name, "default_factory makes mutable defaults; write a value, or None")
        return MISSING if value.default is dataclasses.MISSING else value.default
    if isinstance(value, _MUTABLE):
        raise field_error(
            source, about, name, f"a default of {type(value).__name__} can be changed; write a tuple, or None"
        )
    return value


def _field(
    source: ClassSource, cls: type, one: "dataclasses.Field[Any]", hint: object, own: Mapping[str, object]
) -> RecordField:
    about = f"record {cls.__name__}"
    try:
        slot = value_slot(hint)
        check_depth(slot)
    except HintError as error:
        raise field_error(source, about, one.name, error) from None
    default = own.get(one.name, MISSING if one.default is dataclasses.MISSING else one.default)
    if default is not MISSING and not fits(default, slot.kind, slot.nullable):
        raise field_error(
            source, about, one.name, f"the default {default!r} is not of type {kind_text(slot.kind, slot.nullable)}"
        )
    return RecordField(one.name, slot.kind, slot.nullable, default)


def check_depth(slot: Item, depth: int = 1) -> None:
    """Raise HintError for a type that is nested too deep."""
    if depth > RECORD_DEPTH_MAX:
        raise HintError(f"the type is nested more than {RECORD_DEPTH_MAX} deep")
    match slot.kind:
        case Struct() | Tuple():
            inner = tuple(part for _, part in slot.kind.parts)
        case Listed(item):
            inner = (item,)
        case Mapped(_, value):
            inner = (value,)
        case _:
            inner = ()
    for each in inner:
        check_depth(each, depth + 1)
