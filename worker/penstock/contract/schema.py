"""Fields of a file or an object. A field is said once, at the attribute that holds its value.

    @dataclass(frozen=True, slots=True)
    class Checkpoint(Fields):
        interval_s: Annotated[Duration, Field("interval", "from start to start")] = 10.0

The attribute gives the type and the default. ``Field`` gives the name in the file, the meaning and
the rules. :func:`rows_of` turns a class into rows. The reader, the writer, the CRD schema, the page of
the documentation and the operator's table of changes are made from these rows.
"""

import dataclasses
import inspect
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, ClassVar, TypeAlias, Union, get_args, get_origin, get_type_hints

from penstock.base.errors import ConfigError
from penstock.base.units import SIGNED_DURATION_PATTERN, quantity_text, span_text
from penstock.base.values import replace
from penstock.contract.codec import ABSENT

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"


class Kind(StrEnum):
    """What a field's value looks like in the file."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    DURATION_S = "duration"  # read as seconds
    DURATION_US = "duration-us"  # read as whole microseconds
    QUANTITY = "quantity"  # read as bytes
    CHOICE = "choice"
    OBJECT = "object"
    LIST = "list"  # of objects, of texts, or of whole numbers
    TEXT_MAP = "text-map"  # texts or whole numbers by free names, kept as texts
    OPEN = "open"  # an object that is kept unread, as the API server does
    ANY = "any"  # belongs to the API server; not read


class Change(StrEnum):
    """What a change of a field of ``spec`` does to a running job."""

    IGNORE = "ignore"  # no worker restarts: only the operator reads the field
    SCALE = "scale"  # the running job gets another table of its tasks, no worker restarts
    RESTART = "restart"  # all workers end, and start again from the last checkpoint
    REFUSE = "refuse"  # the change is not taken, and the last good spec stays


@dataclass(frozen=True, slots=True)
class Rule:
    """A relation between fields, for the API server: ``cel`` must hold, else it says ``message``.

    The value that the row makes checks the same relation when it is built. ``path`` names the field
    to blame. A ``cel`` with ``oldSelf`` is about a change of an object: only the API server can
    check it. Messages are fixed, because CEL that puts numbers into texts has no bound on its cost.
    """

    cel: str
    message: str
    path: str = ""

    def refuse(self, broken: bool, values: Mapping[str, object] = MappingProxyType({})) -> None:
        """Raise ConfigError with the message when the rule is broken.

        The message shows ``values`` behind the names of their fields: ``replicas (8) must not ...``.
        """
        text = self.message
        for name, value in values.items():
            text = text.replace(name, f"{name} ({value})", 1)
        if broken:
            raise ConfigError(text)


@dataclass(frozen=True, slots=True)
class Field:
    """What an annotation says of a field. None: not said here.

    An alias of a type says what all fields of that type share: ``Duration`` and ``ObjectName`` are
    such aliases. The ``Field`` of the attribute wins over the one of its type. Bounds are written
    as in the file (``minimum="100ms"``). :class:`FieldRow` explains the other attributes.
    """

    name: str | None = None
    meaning: str | None = None
    kind: Kind | None = None
    minimum: Plain = None
    maximum: Plain = None
    pattern: str | None = None
    rule: str | None = None
    format: str | None = None
    length_min: int | None = None
    length_max: int | None = None
    immutable: bool | None = None
    key: str | None = None
    unique: bool | None = None
    cluster: bool | None = None
    cluster_required: bool | None = None
    change: Change | None = None
    make: Callable[..., object] | None = None
    secret: bool | None = None


@dataclass(frozen=True, slots=True)
class Fields:
    """The base of a dataclass whose attributes are fields.

    ``ONE_OF`` lists fields of which exactly one must be there. ``RULES`` are other relations.
    """

    ONE_OF: ClassVar[tuple[str, ...]] = ()
    RULES: ClassVar[tuple[Rule, ...]] = ()


@dataclass(frozen=True, slots=True)
class FieldRow:
    """All that is known of a field. ``default`` and the bounds are written as in the file.

    - ``attribute`` holds the value. ``make`` builds an OBJECT (or each item of a LIST) from the
      attributes of ``fields``. ``choices`` are what the file may say for a CHOICE.
    - ``key`` names the field that tells the items of a LIST apart (a list-map). With ``unique`` no
      text may be in the LIST twice.
    - ``one_of`` lists fields of which exactly one must be there. ``rules`` are other relations
      of an OBJECT's fields, or of the fields of each item of a LIST.
    - ``pattern`` matches the whole text, in the syntax that Python and RE2 share. For a LIST of
      texts or a TEXT_MAP it matches each text, and ``length_max`` is the number of texts.
    - ``cluster``: only a cluster uses the field. ``cluster_required``: a cluster needs it.
    - ``change`` holds for all fields below, unless a field says another one. ``immutable``: the API
      server refuses a change. ``secret``: no message shows a text that is refused, because it may hold a password.
    """

    name: str
    kind: Kind
    meaning: str
    default: Plain = None
    required: bool = False
    minimum: Plain = None
    maximum: Plain = None
    choices: tuple[str, ...] = ()
    pattern: str = ""
    format: str = ""
    length_min: int = 0
    length_max: int = 253
    immutable: bool = False
    rule: str = ""
    attribute: str = ""
    fields: tuple["FieldRow", ...] = ()
    make: Callable[..., object] | None = None
    key: str = ""
    unique: bool = False
    one_of: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    items: Kind = Kind.TEXT
    item_length_max: int = 253
    cluster: bool = False
    cluster_required: bool = False
    change: Change | None = None
    secret: bool = False

    @property
    def target(self) -> str:
        """Return the attribute that holds the value; without one, the name in the file."""
        return self.attribute or self.name

    def item(self) -> "FieldRow":
        """Return the row of one item of this LIST, or of one value of this TEXT_MAP."""
        if self.fields:
            return FieldRow(
                "",
                Kind.OBJECT,
                self.meaning,
                fields=self.fields,
                make=self.make,
                one_of=self.one_of,
                rules=self.rules,
            )
        return FieldRow(
            "",
            self.items,
            self.meaning,
            pattern=self.pattern,
            rule=self.rule,
            length_min=1 if self.kind is Kind.LIST else 0,
            length_max=self.item_length_max,
            minimum=self.minimum,
            maximum=self.maximum,
        )


# --- Types that fields share ------------------------------------------------------------------

API_VERSION = "penstock.dev/v1alpha1"
OBJECT_NAME = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
SIGNED_DURATION_RULE = "a duration such as 10m, or -5m"
OBJECT_NAME_RULE = "lower-case letters, digits, - and ."
DNS_LABEL = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_NAMESPACE = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_KEPT = (
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
)
MESSAGE_CHARS_MAX = 2048
LENGTH_MAX = 64  # of a list or a map where no field says another one

Duration = Annotated[float, Field(kind=Kind.DURATION_S)]  # in seconds
DurationUs = Annotated[int, Field(kind=Kind.DURATION_US)]  # in microseconds, of event time
SignedDurationUs = Annotated[
    int, Field(kind=Kind.TEXT, pattern=SIGNED_DURATION_PATTERN, rule=SIGNED_DURATION_RULE, length_max=33)
]  # in microseconds, of event time
Quantity = Annotated[int, Field(kind=Kind.QUANTITY)]  # in bytes
Count = Annotated[int, Field(minimum=0)]
LongText = Annotated[str, Field(length_max=4096)]
SECRET_REFERENCE = r"secret:[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[-._a-zA-Z0-9]{1,253}"
SECRET_PLACE = rf"env:[A-Za-z_][A-Za-z0-9_]*|file:.+|{SECRET_REFERENCE}"
SecretPlace = Annotated[
    str,
    Field(
        pattern=SECRET_PLACE,
        rule="secret:NAME/KEY (a Secret of Kubernetes), env:NAME (a variable of the workers) or file:/PATH, never the"
        " secret itself",
        secret=True,
    ),
]
ObjectName = Annotated[str, Field(pattern=OBJECT_NAME, rule=OBJECT_NAME_RULE)]
Time = Annotated[str, Field(format="date-time", length_max=64)]  # RFC 3339
MessageText = Annotated[str, Field(length_min=0, length_max=MESSAGE_CHARS_MAX)]  # for people


# --- Rows of a class --------------------------------------------------------------------------


def rows_of(kind: type[object]) -> tuple[FieldRow, ...]:
    """Return a row for each annotated attribute of a class, in the order of the class.

    The class is a dataclass of fields, or a message that a file can hold, too.
    """
    hints = get_type_hints(kind, include_extras=True)
    defaults = _defaults(kind)
    said = (name for name in defaults if _unwrapped(hints[name])[1])
    return tuple(row_of(hints[name], defaults[name], name) for name in said)


def object_row(kind: type[object], name: str, meaning: str) -> FieldRow:
    """Return the row of an object of a class, like ``spec``."""
    return FieldRow(name, Kind.OBJECT, meaning, **_object(kind))  # type: ignore[arg-type]


def document(kind: str, meaning: str, name: FieldRow, spec: FieldRow, make: Callable[..., object]) -> FieldRow:
    """Return the row of a whole object; ``make`` gets its name, its spec and its namespace."""

    def built(*, metadata: dict[str, object], spec: object, **_: object) -> object:
        return make(str(metadata["name"]), spec, str(metadata["namespace"]))

    fields = (
        _fixed("apiVersion", API_VERSION),
        _fixed("kind", kind),
        _metadata(name),
        replace(spec, required=True),
        FieldRow("status", Kind.ANY, "written by the operator; not read here"),
    )
    return FieldRow("", Kind.OBJECT, meaning, fields=fields, make=built)


def _fixed(name: str, value: str) -> FieldRow:
    return FieldRow(name, Kind.CHOICE, f"must be {value}", required=True, choices=(value,))


def _metadata(name: FieldRow) -> FieldRow:
    """Return the row of ``metadata``: name and namespace are read, the others are left alone."""
    namespace = FieldRow(
        "namespace",
        Kind.TEXT,
        "its namespace",
        default="default",
        pattern=_NAMESPACE,
        length_min=1,
        length_max=63,
    )
    kept = (FieldRow(each, Kind.ANY, "kept by the API server") for each in _KEPT)
    fields = (replace(name, required=True), namespace, *kept)
    return FieldRow("metadata", Kind.OBJECT, "name and namespace", required=True, fields=fields, make=dict)


def row_of(hint: object, default: object = MISSING, attribute: str = "") -> FieldRow:
    """Return the row of one annotated type; without a default the field must be there."""
    bare, said = _unwrapped(hint)
    more = {**_typed(bare), **said}
    kind = more["kind"]
    assert isinstance(kind, Kind)
    if kind is Kind.TEXT:
        more = {"length_min": 0 if default == "" else 1, **more}
    more["attribute"] = attribute
    more["required"] = default is MISSING
    more["default"] = None if default in (MISSING, ABSENT) else _written(kind, default)
    return FieldRow(**more)  # type: ignore[arg-type]


def _defaults(kind: type[object]) -> dict[str, object]:
    """Return the default of each attribute; MISSING where there is none."""
    if dataclasses.is_dataclass(kind):
        return {
            each.name: each.default if each.default_factory is MISSING else each.default_factory()
            for each in dataclasses.fields(kind)
        }
    given = inspect.signature(kind).parameters.values()
    return {each.name: MISSING if each.default is each.empty else each.default for each in given}


def _unwrapped(hint: object) -> tuple[object, dict[str, object]]:
    """Take ``Annotated`` and ``| None`` off a type; return it and what the annotations say."""
    said: dict[str, object] = {}
    while get_origin(hint) in (Annotated, Union, types.UnionType):
        first, *others = get_args(hint)
        if others and isinstance(others[0], FieldRow):
            return first, dict(_said(others[0]))
        if get_origin(hint) is Annotated:
            here = (field for field in others if isinstance(field, Field))
            said = {**{n: v for field in here for n, v in _said(field)}, **said}
        hint = first
    return hint, said


def _said(field: "Field | FieldRow") -> list[tuple[str, object]]:
    values = ((f.name, getattr(field, f.name)) for f in dataclasses.fields(field))
    return [(name, value) for name, value in values if value is not None]


_SCALARS = {str: Kind.TEXT, int: Kind.INTEGER, float: Kind.NUMBER, bool: Kind.BOOLEAN}


def _typed(bare: object) -> dict[str, object]:
    """Return what the type alone says of a row."""
    if get_origin(bare) is tuple:
        return _list(get_args(bare)[0])
    if get_origin(bare) is dict:
        _, item = _unwrapped(get_args(bare)[1])
        return {**_items(item), "kind": Kind.TEXT_MAP}
    if isinstance(bare, type) and issubclass(bare, StrEnum):
        return {"kind": Kind.CHOICE, "choices": tuple(bare), "make": bare}
    if isinstance(bare, type) and bare not in _SCALARS:
        return {**_object(bare), "kind": Kind.OBJECT}
    return {"kind": _SCALARS[bare]} if isinstance(bare, type) else {}


def _list(item: object) -> dict[str, object]:
    bare, said = _unwrapped(item)
    typed = _typed(bare)
    if typed["kind"] is Kind.OBJECT:
        return {**typed, "kind": Kind.LIST, "length_max": LENGTH_MAX}
    return {**_items(said), "kind": Kind.LIST, "items": typed["kind"]}


def _items(said: dict[str, object]) -> dict[str, object]:
    """Say of a LIST or TEXT_MAP what was said of each of its values."""
    spelt = {"length_max": "item_length_max"}
    return {"length_max": LENGTH_MAX, **{spelt.get(name, name): v for name, v in said.items()}}


def _object(kind: type[object]) -> dict[str, object]:
    relations = {"one_of": getattr(kind, "ONE_OF", ()), "rules": getattr(kind, "RULES", ())}
    return {"fields": rows_of(kind), "make": kind, **relations}


def _written(kind: Kind, value: object) -> Plain:
    """Spell a default as in the file. None and empty collections are nothing to write."""
    match kind, value:
        case _, None | () | {}:
            return None
        case Kind.OBJECT, _:
            return {}
        case Kind.DURATION_S, int() | float():
            return span_text(value)
        case Kind.DURATION_US, int():
            return span_text(value / 1_000_000)
        case Kind.QUANTITY, int():
            return quantity_text(value)
        case Kind.CHOICE, str():
            return str(value)
        case _, bool() | int() | float() | str():
            return value
    raise TypeError(f"a {kind} has no default {value!r}")


# --- Paths of savepoints ----------------------------------------------------------------------

# One rule for paths that users give: each part must be a name. With a part that is empty, "." or ".."
# a path leads to another folder than it seems to: NAMESPACE//savepoints/a would mount the folder of a
# whole namespace. The CRDs check paths by PATH. The operator checks what it mounts by plain_parts, and
# a worker what it opens.
# Python and RE2 share this syntax. RE2 has no look-ahead, so the pattern lists how a part may begin.
# A path has no control characters.
_CHAR = r"[^/\x00-\x1f\x7f]"
_FIRST = r"[^/.\x00-\x1f\x7f]"
_PART = rf"(?:{_FIRST}|\.{_FIRST}|\.\.{_CHAR}){_CHAR}*"
PATH = rf"/?{_PART}(?:/{_PART})*"
PATH_RULE = "a path without an empty part, and without '.' or '..' as a part"
PATH_CHARS_MAX = 4096

SnapshotPath = Annotated[str, Field(pattern=PATH, rule=PATH_RULE, length_max=PATH_CHARS_MAX)]

_PATH = re.compile(PATH)


def plain_parts(path: str) -> list[str] | None:
    """Return the parts of a path, without a leading ``/``; None if it breaks :data:`PATH_RULE`."""
    return path.removeprefix("/").split("/") if _PATH.fullmatch(path) else None
