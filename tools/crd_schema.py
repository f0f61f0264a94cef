"""A row to the schema of the API server: structural OpenAPI with rules in CEL.

Everything is bounded (the API server adds up what the rules could cost), everything has a
description (``kubectl explain``), and only an OPEN row keeps what nobody declared.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.base.units import (
    DURATION_CHARS_MAX,
    DURATION_PATTERN,
    QUANTITY_CHARS_MAX,
    QUANTITY_PATTERN,
)
from penstock.base.values import replace
from penstock.contract.schema import FieldRow, Kind

Schema = dict[str, Any]
# In job.graph a text may hold ${name} instead of what it must be: a parameter takes its place.
PLACEHOLDER = r".*\$\{.*\}.*"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row is: below ``job.graph`` (texts may hold ${name}), in an item of a list.

    Items get no defaults from the API server: a client-side apply and Argo CD compare lists as
    wholes, and would find each filled-in default to be a difference. The reader fills them in.
    """

    parameters: bool = False
    item: bool = False


def schema(row: FieldRow, place: Place = Place()) -> Schema:
    """Return the schema of one row and all below it."""
    if row.name == "graph":
        place = replace(place, parameters=True)
    node: Schema = {"description": description(row), **_typed(row, place)}
    rules = list(_rules(row, place))
    if rules:
        node["x-kubernetes-validations"] = rules
    if row.default is not None and not place.item and not _needs_members(row):
        node["default"] = default(row)
    return node


def default(row: FieldRow) -> object:
    """Return the default with the defaults of all members, because rules run before they are set."""
    if row.kind is not Kind.OBJECT:
        return row.default
    return {f.name: default(f) for f in row.fields if f.default is not None}


def description(row: FieldRow) -> str:
    """Say what a field means, its rules and bounds: what ``kubectl explain`` prints."""
    words = [row.meaning[:1].upper() + row.meaning[1:] + "."]
    if row.one_of:
        words.append(f"Exactly one of {', '.join(row.one_of)}.")
    if row.rule:
        words.append(f"Rule: {row.rule}.")
    if row.kind is not Kind.OBJECT and row.default not in (None, ""):
        words.append(f"Default: {_plain(row.default)}.")
    bounds = [
        f"{name} {_plain(bound)}"
        for name, bound in (("at least", row.minimum), ("at most", row.maximum))
        if bound is not None
    ]
    if bounds:
        words.append(" and ".join(bounds).capitalize() + ".")
    if row.immutable:
        words.append("Immutable.")
    return " ".join(words)


def required(fields: Sequence[FieldRow]) -> list[str]:
    """Name the fields that must be given in a cluster."""
    return [f.name for f in fields if f.required or f.cluster_required]


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _needs_members(row: FieldRow) -> bool:
    """Say whether an empty object would be refused: then it is no default."""
    return row.kind is Kind.OBJECT and bool(required(row.fields))


def _typed(row: FieldRow, place: Place) -> Schema:
    match row.kind:
        case Kind.OBJECT:
            return _object(row, place)
        case Kind.LIST:
            return _list(row, place)
        case Kind.TEXT_MAP:
            return {
                "type": "object",
                "maxProperties": row.length_max,
                "additionalProperties": _int_or_text(row.item(), row.pattern),
            }
        case Kind.OPEN:
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        case Kind.TEXT:
            return _text(row, place)
        case Kind.DURATION_S | Kind.DURATION_US:
            return {
                "type": "string",
                "minLength": 1,
                "maxLength": DURATION_CHARS_MAX,
            }
        case Kind.QUANTITY:
            bounded = FieldRow("", Kind.TEXT, row.meaning, length_max=QUANTITY_CHARS_MAX)
            return _int_or_text(bounded, _anchored(QUANTITY_PATTERN, place.parameters), described=False)
        case Kind.CHOICE:
            return {"type": "string", "enum": [str(c) for c in row.choices]}
        case _:
            return _number(row)


def _object(row: FieldRow, place: Place) -> Schema:
    properties = {f.name: schema(f, place) for f in row.fields}
    node: Schema = {"type": "object"}
    if required(row.fields):
        node["required"] = required(row.fields)
    return {**node, "properties": properties}


def _list(row: FieldRow, place: Place) -> Schema:
    place = replace(place, item=True)
    item = schema(row.item(), place)
    node: Schema = {"type": "array", "maxItems": row.length_max, "items": item}
    if row.key:  # the key of an item is never a parameter: it identifies the item
        key = next(f for f in row.fields if f.name == row.key)
        item["properties"][row.key] = schema(key, Place(item=True))
        return {
            **node,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": [row.key],
        }
    return {**node, "x-kubernetes-list-type": "set" if row.unique else "atomic"}


def _text(row: FieldRow, place: Place) -> Schema:
    node: Schema = {"type": "string", "maxLength": row.length_max}
    if row.length_min:
        node["minLength"] = row.length_min
    if row.format:
        node["format"] = row.format
    if row.pattern:
        node["pattern"] = _anchored(row.pattern, place.parameters)
    return node


def _int_or_text(row: FieldRow, pattern: str, *, described: bool = True) -> Schema:
    node: Schema = {"x-kubernetes-int-or-string": True, "maxLength": row.length_max}
    if described:
        node = {"description": description(row), **node}
    if pattern:
        node |= {"minimum": 0, "pattern": _anchored(pattern, parameters=False)}
    return node


def _number(row: FieldRow) -> Schema:
    names = {Kind.INTEGER: "integer", Kind.NUMBER: "number", Kind.BOOLEAN: "boolean"}
    node: Schema = {"type": names[row.kind]}
    if row.kind is Kind.INTEGER:
        node["format"] = "int64"
    bounds = {"minimum": row.minimum, "maximum": row.maximum}
    return node | {name: bound for name, bound in bounds.items() if bound is not None}


def _anchored(pattern: str, parameters: bool) -> str:
    """Match the whole text, as Python's fullmatch does."""
    if pattern.startswith("^"):
        return pattern
    return f"^(?:{pattern}|{PLACEHOLDER})$" if parameters else f"^(?:{pattern})$"


DURATION_WORDS = (
    "must be a duration: numbers with the units d, h, m, s, ms or us, the largest first and each "
    "once, such as 10s, 1m30s or 500ms"
)

# --- Rules in CEL -----------------------------------------------------------------------------


def _rules(row: FieldRow, place: Place) -> Iterator[Schema]:
    if row.kind in {Kind.DURATION_S, Kind.DURATION_US}:
        # A rule and no pattern: for a pattern the API server would answer with the expression.
        yield {"rule": _is_duration(place), "message": DURATION_WORDS}
    yield from _bounds(row, place)
    if row.immutable and (row.required or row.default is not None):
        yield {"rule": "self == oldSelf", "message": f"{row.name} is immutable"}
    if row.kind is not Kind.OBJECT:
        return
    yield from _one_of(row)
    yield from _immutable_members(row)
    for rule in row.rules:
        node = {"rule": rule.cel, "message": rule.message}
        if rule.path:
            node["fieldPath"] = rule.path
        yield node


def _one_of(row: FieldRow) -> Iterator[Schema]:
    if row.one_of:
        given = ", ".join(f"has(self.{name})" for name in row.one_of)
        yield {
            "rule": f"[{given}].exists_one(given, given)",
            "message": f"exactly one of {', '.join(row.one_of)} is needed",
        }


def _immutable_members(row: FieldRow) -> Iterator[Schema]:
    """Guard members that may be left out: their own rule does not run when they come or go."""
    for f in row.fields:
        if f.immutable and not f.required and f.default is None:
            yield {
                "rule": f"has(self.{f.name}) == has(oldSelf.{f.name})"
                f" && (!has(self.{f.name}) || self.{f.name} == oldSelf.{f.name})",
                "message": f"{f.name} is immutable",
                "fieldPath": f".{f.name}",
            }


def _is_duration(place: Place) -> str:
    return f"self.matches(r'{_anchored(DURATION_PATTERN, place.parameters)}')"


def _bounds(row: FieldRow, place: Place) -> Iterator[Schema]:
    """Compare durations and quantities. The bounds of numbers are part of the schema itself."""
    bounds = {"least": row.minimum, "most": row.maximum}
    for word, bound in bounds.items():
        if bound is not None and row.kind in _WITHIN:
            within = _WITHIN[row.kind][word].format(bound)
            unless = "self.contains('${') || " if place.parameters else ""
            if row.kind is not Kind.QUANTITY:  # a text that is no duration breaks one rule, not two
                unless += f"!{_is_duration(place)} || "
            yield {"rule": unless + within, "message": f"must be at {word} {bound}"}


# CEL has no unit for days, and to compute with them would cost too much. All bounds are below half a day.
_DURATIONS = {
    "least": "self.matches('[1-9][0-9.]*d') || duration(self) >= duration('{}')",
    "most": "(!self.contains('d') && duration(self) <= duration('{}'))",
}
_WITHIN = {
    Kind.DURATION_S: _DURATIONS,
    Kind.DURATION_US: _DURATIONS,
    Kind.QUANTITY: {
        "least": "!quantity(string(self)).isLessThan(quantity('{}'))",
        "most": "!quantity(string(self)).isGreaterThan(quantity('{}'))",
    },
}
