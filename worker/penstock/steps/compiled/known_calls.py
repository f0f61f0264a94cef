"""Calls in a user's function: builtins, ``math``, methods of texts, rings and outputs, and the user's functions."""

import ast
import math
import sysconfig
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types

from penstock.base.user_code import is_users
from penstock.model.declared import spans
from penstock.model.declared.record_types import MISSING, record_type
from penstock.steps.compiled import arithmetic, column_access, text_operations
from penstock.steps.compiled.expressions import bit, evaluate, truth
from penstock.steps.compiled.held_kinds import (
    F64,
    FLOAT,
    I64,
    INT,
    INT_LEAST,
    NOTHING,
    TEXT,
    VIEWS,
    ArrayPart,
    Code,
    Group,
    Held,
    NotKnownError,
    OutView,
    RingView,
    Static,
    group,
    spelled,
)

if TYPE_CHECKING:
    from penstock.steps.compiled.statements import Body

LIBRARY = ("exp", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "fmod")
"""Functions of ``math`` that are the same function of the C library in both modes."""

_ROUNDINGS = {math.floor: "floor", math.ceil: "ceil", math.trunc: "trunc"}
_STANDARD = sysconfig.get_paths()["stdlib"]
_SPANS = (spans.days, spans.hours, spans.minutes, spans.seconds, spans.milliseconds)


def call(body: "Body", node: ast.Call) -> Held:
    """Write a call. Raises NotKnownError if it is not listed."""
    if any(isinstance(each, ast.Starred) for each in node.args) or any(each.arg is None for each in node.keywords):
        raise NotKnownError("a call with * or **")
    if isinstance(node.func, ast.Attribute):
        owner = evaluate(body, node.func.value)
        if not isinstance(owner.kind, Static):
            return _method(body, node, node.func.attr, owner)
    function = evaluate(body, node.func)
    if not isinstance(function.kind, Static):
        raise NotKnownError(ast.unparse(node))
    made = record_type(function.known)
    if made is not None:
        return _record(body, node, made)
    if node.keywords:
        raise NotKnownError(f"{ast.unparse(node.func)} with named arguments")
    arguments = [evaluate(body, each) for each in node.args]
    return _function(body, node, function.known, arguments)


def _record(body: "Body", node: ast.Call, record: Any) -> Held:
    """Make a record; its fields are checked when it is emitted, as in Python."""
    if hasattr(record.python, "__post_init__"):
        raise NotKnownError(f"{record.name}, which has a __post_init__,")
    names = [field.name for field in record.fields]
    given = dict(zip(names, [evaluate(body, each) for each in node.args], strict=False))
    for each in node.keywords:
        if each.arg not in names or each.arg in given:
            raise NotKnownError(ast.unparse(node))
        given[str(each.arg)] = evaluate(body, each.value)
    for field in record.fields:
        if field.name not in given and field.default is not MISSING:
            given[field.name] = column_access.known_value(body.m, field.default)
    if len(given) != len(names) or len(node.args) > len(names):
        raise NotKnownError(f"{record.name} without all of its fields")
    if any(isinstance(value.kind, VIEWS) for value in given.values()):
        raise NotKnownError(f"{record.name} of other things than values")
    return group(tuple(given[name] for name in names), record)


def _method(body: "Body", node: ast.Call, name: str, owner: Held) -> Held:
    arguments = [evaluate(body, each) for each in node.args]
    m = body.m
    match owner.kind, name, arguments:
        case OutView(main), "emit", [record] if not node.keywords:
            column_access.emit(m, "main", main, record)
            return NOTHING
        case OutView(_, sides), "to", [label, record] if isinstance(label.known, str) and label.known in dict(sides):
            column_access.emit(m, label.known, dict(sides)[label.known], record)
            return NOTHING
        case RingView(), "append", [value]:
            fell: Held = body.columns.ring_append(owner.kind, value)
            return fell
        case RingView(), "clear", []:
            body.columns.ring_clear(owner.kind)
            return NOTHING
    owner, parts = (
        text_operations.text_of(m, arithmetic.present(m, owner)),
        [text_operations.text_of(m, each) for each in arguments],
    )
    if owner.kind == TEXT and len(parts) == 1 and parts[0].kind == TEXT and not node.keywords:
        if name in ("startswith", "endswith"):
            return bit(text_operations.begins(m, owner, parts[0], at_end=name == "endswith"))
        if name == "find":
            text_operations.check_ascii(m, owner)
            return Held(INT, (text_operations.find(m, owner, parts[0]),))
    raise NotKnownError(ast.unparse(node))


def _function(body: "Body", node: ast.Call, function: Any, arguments: list[Held]) -> Held:
    m = body.m
    if function in _BUILTINS and len(arguments) == 1:
        return _BUILTINS[function](body, arguments[0])
    if function in (min, max) and len(arguments) == 2:
        return _extreme(body, "<" if function is min else ">", arguments)
    if function in _SPANS and len(arguments) == 1 and isinstance(arguments[0].known, int | float):
        return arithmetic.constant(function(arguments[0].known))
    if function in _ROUNDINGS and len(arguments) == 1:
        return arithmetic.rounded(m, _ROUNDINGS[function], arguments[0])
    if getattr(function, "__module__", None) == "math":
        return _of_math(body, function.__name__, arguments)
    if isinstance(function, FunctionType) and _is_written_by_users(function.__code__.co_filename):
        return body.inner(function, arguments)
    raise NotKnownError(ast.unparse(node.func))


def _is_written_by_users(file: str) -> bool:
    """Return whether a function of a file may be written in place: it is neither Penstock's nor Python's own."""
    return is_users(file) and (not file.startswith(_STANDARD) or "site-packages" in file)


def _of_math(body: "Body", name: str, arguments: list[Held]) -> Held:
    """Call a function of the C library. A result that is not finite fails the check: Python may raise there."""
    m = body.m
    values = [arithmetic.present(m, each) for each in arguments]
    if any(value.kind not in (INT, FLOAT) for value in values):
        raise NotKnownError(f"math.{name} of {', '.join(spelled(v.kind) for v in values)}")
    floats = [arithmetic.as_float(m, value) for value in values]
    kind = ir.FunctionType(F64, [F64] * len(floats))
    if name == "sqrt" and len(floats) == 1:
        found = m.b.call(m.module.declare_intrinsic("llvm.sqrt", (F64,), kind), floats)
    elif name == "fabs" and len(floats) == 1:
        return Held(FLOAT, (arithmetic.absolute(m, floats[0]),))
    elif name in LIBRARY and len(floats) == (2 if name == "fmod" else 1):
        found = m.b.call(m.outside(f"penstock_{name}", F64, (F64,) * len(floats)), floats)
    else:
        raise NotKnownError(f"math.{name}")
    m.check(arithmetic.finite(m, found))
    return Held(FLOAT, (found,))


def _extreme(body: "Body", sign: str, arguments: list[Held]) -> Held:
    left, right = (arithmetic.present(body.m, each) for each in arguments)
    if left.kind != right.kind or left.kind not in (INT, FLOAT):
        raise NotKnownError(f"min or max of {spelled(left.kind)} and {spelled(right.kind)}")
    takes_right = arithmetic.compare(body.m, sign, right, left)
    return Held(left.kind, (body.m.b.select(takes_right, right.only, left.only),))


def _abs(body: "Body", value: Held) -> Held:
    m = body.m
    value = arithmetic.present(m, value)
    if value.kind == FLOAT:
        return Held(FLOAT, (arithmetic.absolute(m, value.only),))
    if value.kind != INT:
        raise NotKnownError(f"abs of {spelled(value.kind)}")
    m.check(m.b.icmp_signed("!=", value.only, I64(INT_LEAST)))
    is_negative = m.b.icmp_signed("<", value.only, I64(0))
    return Held(INT, (m.b.select(is_negative, m.b.neg(value.only), value.only),))


def _int(body: "Body", value: Held) -> Held:
    value = arithmetic.present(body.m, value)
    if value.kind == FLOAT:
        return arithmetic.rounded(body.m, "trunc", value)
    if value.kind == TEXT or isinstance(value.kind, Code | Group):
        raise NotKnownError(f"int of {spelled(value.kind)}")
    return Held(INT, (arithmetic.as_int(body.m, value),))


def _bool(body: "Body", value: Held) -> Held:
    return bit(truth(body, value))


def _round(body: "Body", value: Held) -> Held:
    return arithmetic.rounded(body.m, "roundeven", value)


def _float(body: "Body", value: Held) -> Held:
    value = arithmetic.present(body.m, value)
    if value.kind not in (INT, FLOAT):
        raise NotKnownError(f"float of {spelled(value.kind)}")
    return Held(FLOAT, (arithmetic.as_float(body.m, value),))


def _length(body: "Body", value: Held) -> Held:
    value = arithmetic.present(body.m, value)
    match value.kind:
        case RingView():
            return Held(INT, (body.columns.ring_length(value.kind),))
        case ArrayPart(_, _, shape):
            return arithmetic.constant(shape[0])
        case Group(items, None):
            return arithmetic.constant(len(items))
    if value.kind == TEXT or isinstance(value.kind, Code):
        return text_operations.length(body.m, value)
    raise NotKnownError(f"len of {spelled(value.kind)}")


_BUILTINS: dict[Any, Callable[["Body", Held], Held]] = {
    abs: _abs,
    bool: _bool,
    float: _float,
    int: _int,
    len: _length,
    round: _round,
}
