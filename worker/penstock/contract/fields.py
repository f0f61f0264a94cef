"""A field of a file as data: name, kind, meaning, default, rule. Readers and schemas use the rows.

One table per object says everything that a reader, a document and a CRD schema need; nothing
about a field is said twice.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TypeAlias

from penstock.base.errors import ConfigError

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
    LIST = "list"  # of objects with ``fields``, or of texts
    TEXT_MAP = "text-map"  # texts or whole numbers by free names, kept as texts
    OPEN = "open"  # an object preserved unread, as the API server does
    ANY = "any"  # the API server's own; not read


@dataclass(frozen=True, slots=True)
class Rule:
    """A relation between fields, for the API server: ``cel`` holds, or ``message`` is said.

    The value that the row makes checks the same when it is built. ``path`` names the field to
    blame. A ``cel`` with ``oldSelf`` is about a change of an object, so only the API server can
    judge it. Messages are fixed: CEL that puts numbers into texts has no bound on its cost.
    """

    cel: str
    message: str
    path: str = ""

    def refuse(self, broken: bool) -> None:
        """Raise ConfigError in the rule's words when it is broken."""
        if broken:
            raise ConfigError(self.message)


@dataclass(frozen=True, slots=True)
class Field:
    """One row. ``default`` is written as a user would write it; ``minimum`` and ``maximum`` too.

    - ``choices`` maps what the file says to the value; ``make`` builds an OBJECT (or each item of
      a LIST) from attributes. ``key`` names the field that tells items apart (a list-map);
      ``unique``: texts of which none may be there twice.
    - ``one_of`` lists fields of which exactly one must be there; ``rules`` are other relations
      of an OBJECT's fields (of each item's, for a LIST).
    - ``pattern`` is that of the whole text, in the syntax that Python and RE2 share; for a LIST
      of texts or a TEXT_MAP it is that of each text, and ``length_max`` is the number of them.
    - ``cluster``: only a cluster uses it; ``cluster_required``: and there it must be given.
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
    fields: tuple["Field", ...] = ()
    make: Callable[..., object] | None = None
    key: str = ""
    unique: bool = False
    one_of: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    items: Kind = Kind.TEXT
    item_length_max: int = 253
    cluster: bool = False
    cluster_required: bool = False

    @property
    def target(self) -> str:
        """Return the attribute that holds the value: ``attribute``, or the name in snake case."""
        return self.attribute or snake(self.name)

    def item(self) -> "Field":
        """Return the row of one item of this LIST, or of one value of this TEXT_MAP."""
        if self.fields:
            return Field(
                "",
                Kind.OBJECT,
                self.meaning,
                fields=self.fields,
                make=self.make,
                one_of=self.one_of,
                rules=self.rules,
            )
        return Field(
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


@cache
def snake(name: str) -> str:
    """Turn ``allowedLateness`` into ``allowed_lateness``."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda m: "_" + m[1].lower(), name)


def text(name: str, meaning: str, **more: object) -> Field:
    """Build a TEXT row; the empty text is not one, unless ``length_min`` is 0."""
    length_min = 0 if more.get("default") == "" else 1
    return _field(name, Kind.TEXT, meaning, {"length_min": length_min, **more})


def integer(name: str, meaning: str, **more: object) -> Field:
    """Build an INTEGER row."""
    return _field(name, Kind.INTEGER, meaning, more)


def number(name: str, meaning: str, **more: object) -> Field:
    """Build a NUMBER row."""
    return _field(name, Kind.NUMBER, meaning, more)


def boolean(name: str, meaning: str, **more: object) -> Field:
    """Build a BOOLEAN row."""
    return _field(name, Kind.BOOLEAN, meaning, more)


def duration(name: str, meaning: str, **more: object) -> Field:
    """Build a duration row; its attribute is in seconds and ends in ``_s``."""
    return _field(name, Kind.DURATION_S, meaning, {"attribute": snake(name) + "_s", **more})


def duration_us(name: str, meaning: str, **more: object) -> Field:
    """Build a duration row of event time; its attribute is in microseconds and ends in ``_us``."""
    return _field(name, Kind.DURATION_US, meaning, {"attribute": snake(name) + "_us", **more})


def quantity(name: str, meaning: str, **more: object) -> Field:
    """Build a quantity row; its attribute is in bytes."""
    return _field(name, Kind.QUANTITY, meaning, more)


def choice(name: str, meaning: str, choices: type[StrEnum], **more: object) -> Field:
    """Build a CHOICE row over the values of an enumeration; the attribute holds its member."""
    return _field(name, Kind.CHOICE, meaning, {"choices": tuple(choices), "make": choices, **more})


def group(
    name: str, meaning: str, make: Callable[..., object], *fields: Field, **more: object
) -> Field:
    """Build an OBJECT row."""
    return _field(name, Kind.OBJECT, meaning, {"make": make, "fields": fields, **more})


def listing(
    name: str, meaning: str, make: Callable[..., object], *fields: Field, **more: object
) -> Field:
    """Build a LIST row of objects."""
    return _field(
        name, Kind.LIST, meaning, {"make": make, "fields": fields, "length_max": 64, **more}
    )


def texts(name: str, meaning: str, **more: object) -> Field:
    """Build a LIST row of texts; the attribute is a tuple."""
    return _field(name, Kind.LIST, meaning, {"length_max": 64, **more})


def integers(name: str, meaning: str, **more: object) -> Field:
    """Build a LIST row of whole numbers; the attribute is a tuple."""
    return _field(name, Kind.LIST, meaning, {"items": Kind.INTEGER, "length_max": 64, **more})


def text_map(name: str, meaning: str, **more: object) -> Field:
    """Build a TEXT_MAP row."""
    return _field(name, Kind.TEXT_MAP, meaning, {"length_max": 64, "item_length_max": 4096, **more})


def _field(name: str, kind: Kind, meaning: str, more: dict[str, object]) -> Field:
    return Field(name, kind, meaning, **more)  # type: ignore[arg-type]
