"""Expressions of a user's function: each kind of syntax that is listed here has its meaning in compiled code.

What is not listed is refused with file and line, and Python runs the function.
"""

import ast
import hashlib
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.model.declared.value_kinds import Item
from penstock.steps.compiled import arithmetic, column_access, text_operations
from penstock.steps.compiled.held_kinds import (
    BOOL,
    F64,
    FLOAT,
    I1,
    I64,
    INT,
    NONE,
    TEXT,
    VIEWS,
    ArrayPart,
    Code,
    Group,
    Held,
    Maybe,
    NotKnownError,
    RecordView,
    RingView,
    StateView,
    Static,
    group,
    items_of,
    joined,
    spelled,
)

if TYPE_CHECKING:
    from penstock.steps.compiled.statements import Body

ARRAY_BYTES_MAX = 1_000_000
_SIGNS: dict[type, str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
}
_COMPARISONS: dict[type, str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


def evaluate(body: "Body", node: ast.expr) -> Held:
    """Write the code of an expression. Raises RefusedError with its place if it is not known."""
    rule = _RULES.get(type(node))
    try:
        if rule is None:
            raise NotKnownError(ast.unparse(node))
        return rule(body, node)
    except NotKnownError as error:
        raise body.refusal(node, f"{error} is not known to compiled functions") from None


def sign_of(operator: ast.operator) -> str:
    """Return the sign of an operator. Raises NotKnownError for one that is not compiled."""
    sign = _SIGNS.get(type(operator))
    if sign is None:
        raise NotKnownError(f"the operator {type(operator).__name__}")
    return sign


def truth(body: "Body", value: Held) -> Any:
    """Return the bit of ``bool(value)``."""
    b = body.m.b
    match value.kind:
        case Maybe(kind):
            return b.and_(value.leaves[0], truth(body, Held(kind, value.leaves[1:])))
        case RingView():
            return b.icmp_signed("!=", body.columns.ring_length(value.kind), I64(0))
        case Group(items, None):
            return I1(int(bool(items)))
        case Code():
            return truth(body, text_operations.text_of(body.m, value))
    if value.kind == BOOL:
        return value.only
    if value.kind == INT:
        return b.icmp_signed("!=", value.only, I64(0))
    if value.kind == FLOAT:
        return b.fcmp_unordered("!=", value.only, arithmetic.float_constant(0.0))
    if value.kind == NONE:
        return I1(0)
    if value.kind == TEXT:
        return b.icmp_signed("!=", value.leaves[1], I64(0))
    raise NotKnownError(f"{spelled(value.kind)} as a condition")


def bit(value: Any) -> Held:
    """Return a bit as a bool."""
    return Held(BOOL, (value,))


def converted(value: Held, kind: Any) -> Held:
    """Return a value as one of a kind that :func:`held_kinds.joined` gave for it."""
    if value.kind == kind:
        return value
    if isinstance(kind, Group):
        items = [converted(item, wanted) for item, wanted in zip(items_of(value), kind.items, strict=True)]
        return Held(kind, tuple(leaf for item in items for leaf in item.leaves))
    assert isinstance(kind, Maybe), "only None and groups join kinds"
    if value.kind == NONE:
        return Held(kind, (I1(0), *(leaf(None) for leaf in kind.kind.leaves)))
    is_there, inner = I1(1), value
    if isinstance(value.kind, Maybe):
        is_there, inner = value.leaves[0], Held(value.kind.kind, value.leaves[1:])
    return Held(kind, (is_there, *converted(inner, kind.kind).leaves))


def chosen(body: "Body", test: Any, then: Callable[[], Held], other: Callable[[], Held]) -> Held:
    """Write both branches of a choice, and return the value of the one that is run."""
    b = body.m.b
    blocks = [body.m.block(name) for name in ("then", "otherwise", "chosen")]
    b.cbranch(test, blocks[0], blocks[1])
    found, ends = [], []
    for block, write in zip(blocks, (then, other), strict=False):
        b.position_at_end(block)
        found.append(write())
        ends.append(b.block)
    kind = joined(found[0].kind, found[1].kind)
    if isinstance(kind, VIEWS):
        raise NotKnownError(f"a choice between {spelled(kind)} and another one")
    values = [converted(value, kind) for value in found]
    for end in ends:
        b.position_at_end(end)
        b.branch(blocks[2])
    b.position_at_end(blocks[2])
    leaves = []
    for number, leaf in enumerate(kind.leaves):
        phi = b.phi(leaf)
        for value, end in zip(values, ends, strict=True):
            phi.add_incoming(value.leaves[number], end)
        leaves.append(phi)
    return Held(kind, tuple(leaves))


def _constant(body: "Body", node: Any) -> Held:
    return column_access.known_value(body.m, node.value)


def _name(body: "Body", node: Any) -> Held:
    return body.read(node.id)


def global_value(body: "Body", name: str, found: object) -> Held:
    """Return the value of a global or of a builtin, as it is when the function is built."""
    if isinstance(found, np.ndarray):
        return _array(body, name, found)
    if isinstance(found, bool | int | float | str | bytes | tuple) or found is None:
        return column_access.known_value(body.m, found)
    return Held(Static(), (), found)


def _array(body: "Body", name: str, found: Any) -> Held:
    if found.dtype not in (np.float64, np.int64) or found.nbytes > ARRAY_BYTES_MAX or not found.ndim:
        raise NotKnownError(f"{name}, an array of {found.dtype} and {found.nbytes} bytes,")
    kind = FLOAT if found.dtype == np.float64 else INT
    words = np.ascontiguousarray(found).view(np.int64)
    label = f"array.{hashlib.sha256(words.tobytes()).hexdigest()}"
    body.m.constant(I64, words.ravel().tolist(), label)
    return Held(ArrayPart(label, kind, found.shape), (I64(0),))


def _binary(body: "Body", node: Any) -> Held:
    left, right = evaluate(body, node.left), evaluate(body, node.right)
    return arithmetic.binary(body.m, sign_of(node.op), left, right)


def _unary(body: "Body", node: Any) -> Held:
    value = evaluate(body, node.operand)
    match node.op:
        case ast.Not():
            return bit(body.m.b.not_(truth(body, value)))
        case ast.USub():
            return arithmetic.negative(body.m, value)
    raise NotKnownError(ast.unparse(node))


def _bool_operation(body: "Body", node: Any) -> Held:
    is_and = isinstance(node.op, ast.And)

    def rest(values: list[Any]) -> Held:
        first = evaluate(body, values[0])
        if len(values) == 1:
            return first
        test = truth(body, first)
        later, own = (lambda: rest(values[1:])), (lambda: first)
        return chosen(body, test, later, own) if is_and else chosen(body, test, own, later)

    return rest(node.values)


def _choice(body: "Body", node: Any) -> Held:
    test = truth(body, evaluate(body, node.test))
    return chosen(body, test, lambda: evaluate(body, node.body), lambda: evaluate(body, node.orelse))


def _compare(body: "Body", node: Any) -> Held:
    """Write ``a < b < c``: later operands are evaluated only if the earlier comparisons hold."""

    def rest(left: Held, number: int) -> Held:
        right = evaluate(body, node.comparators[number])
        found = bit(_compared(body, node.ops[number], left, right))
        if number + 1 == len(node.ops):
            return found
        return chosen(body, found.only, lambda: rest(right, number + 1), lambda: bit(I1(0)))

    return rest(evaluate(body, node.left), 0)


def _compared(body: "Body", operator: ast.cmpop, left: Held, right: Held) -> Any:
    m = body.m
    if isinstance(operator, ast.Is | ast.IsNot) and right.kind == NONE:
        is_none = m.b.not_(left.leaves[0]) if isinstance(left.kind, Maybe) else I1(int(left.kind == NONE))
        return is_none if isinstance(operator, ast.Is) else m.b.not_(is_none)
    if isinstance(operator, ast.In | ast.NotIn):
        if left.kind != TEXT or right.kind != TEXT:
            raise NotKnownError(f"{spelled(left.kind)} in {spelled(right.kind)}")
        found = m.b.icmp_signed(">=", text_operations.find(m, right, left), I64(0))
        return found if isinstance(operator, ast.In) else m.b.not_(found)
    sign = _COMPARISONS.get(type(operator))
    if sign is None:
        raise NotKnownError(f"the comparison {type(operator).__name__}")
    if sign in ("==", "!="):
        same = _equal(body, left, right)
        return same if sign == "==" else m.b.not_(same)
    left, right = arithmetic.present(m, left), arithmetic.present(m, right)
    if _is_text(left) and _is_text(right):
        return text_operations.ordered(m, sign, left, right)
    return arithmetic.compare(m, sign, left, right)


def _is_text(value: Held) -> bool:
    return isinstance(value.kind, Code) or value.kind == TEXT


def _equal(body: "Body", left: Held, right: Held) -> Any:
    m = body.m
    for one, other in ((left, right), (right, left)):
        if isinstance(one.kind, Maybe):
            inner = Held(one.kind.kind, one.leaves[1:])
            if other.kind == NONE:
                return m.b.not_(one.leaves[0])
            if not isinstance(other.kind, Maybe):
                either = chosen(body, one.leaves[0], lambda i=inner, o=other: bit(_equal(body, i, o)), _no)  # type: ignore[misc]
                return either.only
    if _is_text(left) and _is_text(right):
        return text_operations.equal(m, left, right)
    return arithmetic.compare(m, "==", left, right)


def _no() -> Held:
    return bit(I1(0))


def _attribute(body: "Body", node: Any) -> Held:
    owner = evaluate(body, node.value)
    match owner.kind:
        case RecordView(record):
            for each in record.fields:
                if each.name == node.attr:
                    return column_access.record_value(body.m, Item(each.kind, each.nullable), each.name)
        case StateView(state):
            for field in state.fields:
                if field.name == node.attr:
                    return body.columns.get(field)
        case Group(_, record) if record is not None:
            names = [each.name for each in record.fields]
            if node.attr in names:
                return items_of(owner)[names.index(node.attr)]
        case Static() if owner.known is math and hasattr(math, node.attr):
            return global_value(body, node.attr, getattr(math, node.attr))
        case Static() if hasattr(owner.known, "__spec__"):
            return global_value(body, node.attr, getattr(owner.known, node.attr))
    raise NotKnownError(ast.unparse(node))


def _tuple(body: "Body", node: Any) -> Held:
    items = tuple(evaluate(body, each) for each in node.elts)
    if any(isinstance(item.kind, VIEWS) for item in items):
        raise NotKnownError("a tuple of other things than values")
    return group(items)


def _subscript(body: "Body", node: Any) -> Held:
    owner = arithmetic.present(body.m, evaluate(body, node.value))
    if isinstance(node.slice, ast.Slice):
        if not _is_text(owner) or node.slice.step is not None:
            raise NotKnownError(ast.unparse(node))
        ends = [None if e is None else _index(body, e) for e in (node.slice.lower, node.slice.upper)]
        return text_operations.cut(body.m, owner, ends[0], ends[1])
    if isinstance(owner.kind, ArrayPart):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for each in parts:
            owner = _item_of_array(body, owner, _index(body, each))
        return owner
    index = _index(body, node.slice)
    if isinstance(owner.kind, RingView):
        at = _from_end(body, index.only, body.columns.ring_length(owner.kind))
        return body.columns.ring_get(owner.kind, at)
    if isinstance(owner.kind, Group) and owner.kind.record is None and isinstance(index.known, int):
        if -len(owner.kind.items) <= index.known < len(owner.kind.items):
            return items_of(owner)[index.known]
    elif _is_text(owner):
        return text_operations.character(body.m, owner, index)
    raise NotKnownError(ast.unparse(node))


def _index(body: "Body", node: ast.expr) -> Held:
    index = arithmetic.present(body.m, evaluate(body, node))
    if index.kind != INT:
        raise NotKnownError(f"{spelled(index.kind)} as an index")
    return index


def _from_end(body: "Body", index: Any, length: Any) -> Any:
    """Return an index from the front. One beyond the ends fails the check."""
    b = body.m.b
    at = b.select(b.icmp_signed("<", index, I64(0)), b.add(index, length), index)
    body.m.check(b.icmp_unsigned("<", at, length))
    return at


def _item_of_array(body: "Body", owner: Held, index: Held) -> Held:
    m = body.m
    if not isinstance(owner.kind, ArrayPart):
        raise NotKnownError("more indexes than the array has")
    shape = owner.kind.shape
    at = m.b.add(owner.only, m.b.mul(_from_end(body, index.only, I64(shape[0])), I64(math.prod(shape[1:]))))
    if len(shape) > 1:
        return Held(ArrayPart(owner.kind.name, owner.kind.kind, shape[1:]), (at,))
    found = m.load(m.address(m.module.globals[owner.kind.name]), I64, at)
    return Held(owner.kind.kind, (m.b.bitcast(found, F64) if owner.kind.kind == FLOAT else found,))


def _call(body: "Body", node: Any) -> Held:
    from penstock.steps.compiled.known_calls import call  # noqa: PLC0415  calls evaluate their arguments here

    return call(body, node)


_RULES: dict[type, Callable[["Body", Any], Held]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _bool_operation,
    ast.IfExp: _choice,
    ast.Compare: _compare,
    ast.Attribute: _attribute,
    ast.Tuple: _tuple,
    ast.Subscript: _subscript,
    ast.Call: _call,
}
