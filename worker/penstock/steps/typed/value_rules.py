"""Which Python values a kind takes, and in which form they are kept.

The rule is that of :mod:`penstock.model.exact`: a value is accepted when the type can hold it. A time is a
whole number of microseconds. A text of an Enum is given as a text, and is kept as an
:class:`~penstock.steps.typed.enum_text.EnumText`; a whole number takes its code. Records must be of their class, and
their fields are kept as other values are.

A rule is a function. It returns the value as a later read gives it, or raises TypeError or ValueError.
"""

from collections.abc import Callable
from operator import is_
from typing import Any

import pyarrow as pa

from penstock.model.declared.value_kinds import (
    Boolean,
    Choice,
    DecimalNumber,
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
from penstock.model.exact import taken, taker
from penstock.steps.typed.enum_text import EnumText, enum_texts
from penstock.steps.typed.value_cells import constructor

Rule = Callable[[Any], Any]
_INT64 = Whole(64)


def checked(rule: Rule, value: Any, item: Item, what: str) -> Any:
    """Return what a rule gives. Its error names ``what``, the value and the type."""
    try:
        return rule(value)
    except (TypeError, ValueError, OverflowError):
        return taken(rule, value, kind_text(item.kind, item.nullable), what)  # raises


def rule_of(item: Item) -> Rule:
    """Return the rule of a place for values. It takes None if the place is nullable."""
    rule = _rule(item.kind)
    if not item.nullable:
        return rule
    return lambda value: None if value is None else rule(value)


def _rule(kind: ValueKind) -> Rule:
    match kind:
        case Whole():
            return _whole(kind)
        case Floating():
            return taker(pa.float64() if kind.bits == 64 else pa.float32())
        case Boolean():
            return taker(pa.bool_())
        case Text():
            return taker(pa.string())
        case Instant():
            return _instant
        case Choice():
            return _choice(kind)
        case DecimalNumber(digits, scale):
            return taker(pa.decimal128(digits, scale))
        case Struct():
            return _record(kind)
        case Tuple():
            return _tuple(kind)
        case Listed(item):
            return _list(rule_of(item))
        case Mapped(key, item):
            return _dict(_rule(key), rule_of(item))
        case _:
            return taker(pa.binary())


def _whole(kind: Whole) -> Rule:
    take = taker(pa.type_for_alias(kind.dtype))
    return lambda value: take(value.code if type(value) is EnumText else value)


def _instant(value: Any) -> int:
    time: int = taker(pa.int64())(value)
    if time < -_INT64.most:
        raise ValueError("it is before the first time of 64 bits")
    return time


def _choice(kind: Choice) -> Rule:
    texts = enum_texts(kind.values)

    def take(value: Any) -> EnumText:
        if not isinstance(value, str):
            raise TypeError(f"it is no str but {type(value).__name__}")
        found = texts.get(value)
        if found is None:
            raise ValueError("it is none of the texts of the Enum")
        return found

    return take


def _record(kind: Struct) -> Rule:
    names, rules = [name for name, _ in kind.parts], [rule_of(part) for _, part in kind.parts]
    make = constructor(kind.python)

    def take(value: Any) -> Any:
        if not isinstance(value, kind.python):
            raise TypeError(f"it is no {kind.python.__name__} but {type(value).__name__}")
        given = [getattr(value, name) for name in names]
        kept = [rule(each) for rule, each in zip(rules, given, strict=True)]
        return value if all(map(is_, given, kept)) else make(*kept)

    return take


def _tuple(kind: Tuple) -> Rule:
    rules = tuple(map(rule_of, kind.items))

    def take(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, tuple):
            raise TypeError(f"it is no tuple but {type(value).__name__}")
        if len(value) != len(rules):
            raise ValueError(f"it has {len(value)} items, not {len(rules)}")
        return tuple([rule(each) for rule, each in zip(rules, value, strict=True)])

    return take


def _list(rule: Rule) -> Rule:
    def take(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise TypeError(f"it is no list but {type(value).__name__}")
        return [rule(each) for each in value]

    return take


def _dict(key_rule: Rule, value_rule: Rule) -> Rule:
    def take(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise TypeError(f"it is no dict but {type(value).__name__}")
        return {key_rule(key): value_rule(each) for key, each in value.items()}

    return take
