"""Numbers in compiled functions: what each operator and function means for whole numbers, floats and bools.

Every operation gives what Python gives, bit for bit, or the record is undone and Python runs it. So a check
fails for a whole number beyond 64 bits, for a division by zero, and for a quotient of whole numbers beyond 2^53,
where a division of floats would round twice.
"""

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types

from penstock.steps.compiled.held_kinds import (
    BOOL,
    F64,
    FLOAT,
    I1,
    I64,
    INT,
    INT_LEAST,
    INT_MOST,
    Held,
    Maybe,
    NotKnownError,
    spelled,
)
from penstock.steps.compiled.loop_writer import LoopWriter

EXACT = 1 << 53  # up to here, each whole number is a float
Operation = Callable[[LoopWriter, Any, Any], Any]


def constant(value: object) -> Held:
    """Return a number that is known when the function is built. Raises NotKnownError for a whole one beyond 64 bits."""
    if isinstance(value, bool):
        return Held(BOOL, (I1(int(value)),), value)
    if isinstance(value, int):
        if not INT_LEAST <= value <= INT_MOST:
            raise NotKnownError(f"{value} is beyond 64 bits, which")
        return Held(INT, (I64(value),), value)
    assert isinstance(value, float), "the caller knows the type"
    return Held(FLOAT, (float_constant(value),), value)


def float_constant(value: float) -> Any:
    """Return a float in LLVM, bit for bit."""
    return ir.Constant(F64, value)


def present(m: LoopWriter, value: Held) -> Held:
    """Return a value that is not None; a record in which it is None is run by Python, which raises."""
    if not isinstance(value.kind, Maybe):
        return value
    m.check(value.leaves[0])
    return Held(value.kind.kind, value.leaves[1:])


def as_float(m: LoopWriter, value: Held) -> Any:
    """Return a number as a float; whole numbers are rounded as Python does it."""
    if value.kind == FLOAT:
        return value.only
    return m.b.sitofp(as_int(m, value), F64)


def as_int(m: LoopWriter, value: Held) -> Any:
    """Return a whole number or a bool as a whole number."""
    return value.only if value.kind == INT else m.b.zext(value.only, I64)


# --- Whole numbers ----------------------------------------------------------------------------


def checked(m: LoopWriter, name: str, left: Any, right: Any) -> Any:
    """Compute with ``llvm.<name>.with.overflow``; a result beyond 64 bits fails the check."""
    kind = ir.FunctionType(ir.LiteralStructType([I64, I1]), [I64, I64])
    made = m.b.call(m.module.declare_intrinsic(f"llvm.{name}.with.overflow", (I64,), kind), [left, right])
    m.check(m.b.not_(m.b.extract_value(made, 1)))
    return m.b.extract_value(made, 0)


def _overflowing(name: str) -> Operation:
    return lambda m, left, right: checked(m, name, left, right)


def _check_division(m: LoopWriter, left: Any, right: Any) -> None:
    m.check(m.b.icmp_signed("!=", right, I64(0)))
    least = m.b.and_(m.b.icmp_signed("==", left, I64(INT_LEAST)), m.b.icmp_signed("==", right, I64(-1)))
    m.check(m.b.not_(least))


def _rounds_up(m: LoopWriter, rest: Any, right: Any) -> Any:
    """Return whether a division of processors, which rounds to zero, has rounded up."""
    return m.b.and_(m.b.icmp_signed("!=", rest, I64(0)), m.b.icmp_signed("<", m.b.xor(rest, right), I64(0)))


def floor_divide(m: LoopWriter, left: Any, right: Any) -> Any:
    """Compute ``left // right``."""
    _check_division(m, left, right)
    up = _rounds_up(m, m.b.srem(left, right), right)
    return m.b.sub(m.b.sdiv(left, right), m.b.zext(up, I64))


def _modulo(m: LoopWriter, left: Any, right: Any) -> Any:
    _check_division(m, left, right)
    rest = m.b.srem(left, right)
    return m.b.select(_rounds_up(m, rest, right), m.b.add(rest, right), rest)


def _is_exact(m: LoopWriter, number: Any) -> Any:
    return m.b.icmp_unsigned("<=", m.b.add(number, I64(EXACT)), I64(2 * EXACT))


def _divide(m: LoopWriter, left: Any, right: Any) -> Any:
    m.check(m.b.icmp_signed("!=", right, I64(0)))
    m.check(m.b.and_(_is_exact(m, left), _is_exact(m, right)))
    return m.b.fdiv(m.b.sitofp(left, F64), m.b.sitofp(right, F64))


def _shift_left(m: LoopWriter, left: Any, right: Any) -> Any:
    m.check(m.b.icmp_unsigned("<", right, I64(63)))
    moved = m.b.shl(left, right)
    m.check(m.b.icmp_signed("==", m.b.ashr(moved, right), left))
    return moved


def _shift_right(m: LoopWriter, left: Any, right: Any) -> Any:
    m.check(m.b.icmp_signed(">=", right, I64(0)))
    far = m.b.icmp_signed(">", right, I64(63))
    return m.b.ashr(left, m.b.select(far, I64(63), right))


# --- Floats -----------------------------------------------------------------------------------


def finite(m: LoopWriter, value: Any) -> Any:
    """Return the bit that says whether a float is finite."""
    return m.b.fcmp_ordered("<", absolute(m, value), float_constant(math.inf))


def absolute(m: LoopWriter, value: Any) -> Any:
    """Return ``abs`` of a float."""
    kind = ir.FunctionType(F64, [F64])
    return m.b.call(m.module.declare_intrinsic("llvm.fabs", (F64,), kind), [value])


def copy_sign(m: LoopWriter, value: Any, sign: Any) -> Any:
    """Return ``math.copysign``."""
    kind = ir.FunctionType(F64, [F64, F64])
    return m.b.call(m.module.declare_intrinsic("llvm.copysign", (F64,), kind), [value, sign])


def _float_divide(m: LoopWriter, left: Any, right: Any) -> Any:
    m.check(m.b.fcmp_unordered("!=", right, float_constant(0.0)))
    return m.b.fdiv(left, right)


def _rest(m: LoopWriter, left: Any, right: Any) -> tuple[Any, Any]:
    """Return the rest of ``left // right`` as Python has it, and whether a divisor was added to it."""
    m.check(m.both(finite(m, left), finite(m, right), m.b.fcmp_unordered("!=", right, float_constant(0.0))))
    rest = m.b.call(m.outside("penstock_fmod", F64, (F64, F64)), [left, right])
    zero = m.b.fcmp_ordered("==", rest, float_constant(0.0))
    negative = [m.b.fcmp_ordered("<", each, float_constant(0.0)) for each in (rest, right)]
    moved = m.b.and_(m.b.not_(zero), m.b.xor(negative[0], negative[1]))
    found = m.b.select(moved, m.b.fadd(rest, right), rest)
    return m.b.select(zero, copy_sign(m, float_constant(0.0), right), found), moved


def _float_modulo(m: LoopWriter, left: Any, right: Any) -> Any:
    return _rest(m, left, right)[0]


def _float_floor_divide(m: LoopWriter, left: Any, right: Any) -> Any:
    """Compute ``left // right`` step by step as ``float_divmod`` of CPython does."""
    rest, moved = _rest(m, left, right)
    # CPython takes the rest before the divisor is added; a zero of either sign is the same here.
    plain = m.b.select(moved, m.b.call(m.outside("penstock_fmod", F64, (F64, F64)), [left, right]), rest)
    quotient = m.b.fdiv(m.b.fsub(left, plain), right)
    quotient = m.b.select(moved, m.b.fsub(quotient, float_constant(1.0)), quotient)
    kind = ir.FunctionType(F64, [F64])
    whole = m.b.call(m.module.declare_intrinsic("llvm.floor", (F64,), kind), [quotient])
    above = m.b.fcmp_ordered(">", m.b.fsub(quotient, whole), float_constant(0.5))
    whole = m.b.select(above, m.b.fadd(whole, float_constant(1.0)), whole)
    zero = copy_sign(m, float_constant(0.0), m.b.fdiv(left, right))
    return m.b.select(m.b.fcmp_ordered("==", quotient, float_constant(0.0)), zero, whole)


INT_OPERATIONS: dict[str, tuple[Any, Operation]] = {
    "+": (INT, _overflowing("sadd")),
    "-": (INT, _overflowing("ssub")),
    "*": (INT, _overflowing("smul")),
    "//": (INT, floor_divide),
    "%": (INT, _modulo),
    "/": (FLOAT, _divide),
    "<<": (INT, _shift_left),
    ">>": (INT, _shift_right),
    "&": (INT, lambda m, left, right: m.b.and_(left, right)),
    "|": (INT, lambda m, left, right: m.b.or_(left, right)),
    "^": (INT, lambda m, left, right: m.b.xor(left, right)),
}
FLOAT_OPERATIONS: dict[str, Operation] = {
    "+": lambda m, left, right: m.b.fadd(left, right),
    "-": lambda m, left, right: m.b.fsub(left, right),
    "*": lambda m, left, right: m.b.fmul(left, right),
    "/": _float_divide,
    "//": _float_floor_divide,
    "%": _float_modulo,
}
_BITS: dict[str, Operation] = {sign: INT_OPERATIONS[sign][1] for sign in "&|^"}


def binary(m: LoopWriter, sign: str, left: Held, right: Held) -> Held:
    """Compute ``left <sign> right``. Raises NotKnownError if that is not listed for these kinds."""
    left, right = present(m, left), present(m, right)
    kinds = {left.kind, right.kind}
    if kinds == {BOOL} and sign in _BITS:
        return Held(BOOL, (_BITS[sign](m, left.only, right.only),))
    if kinds == {INT} and sign in INT_OPERATIONS:
        kind, operation = INT_OPERATIONS[sign]
        return Held(kind, (operation(m, left.only, right.only),))
    if FLOAT in kinds and kinds <= {INT, FLOAT} and sign in FLOAT_OPERATIONS:
        return Held(FLOAT, (FLOAT_OPERATIONS[sign](m, as_float(m, left), as_float(m, right)),))
    raise NotKnownError(f"{spelled(left.kind)} {sign} {spelled(right.kind)}")


def compare(m: LoopWriter, sign: str, left: Held, right: Held) -> Any:
    """Return the bit of a comparison of two numbers. Raises NotKnownError for other kinds."""
    kinds = {left.kind, right.kind}
    if not kinds <= {INT, FLOAT, BOOL}:
        raise NotKnownError(f"{spelled(left.kind)} {sign} {spelled(right.kind)}")
    if FLOAT not in kinds:
        return m.b.icmp_signed(sign, as_int(m, left), as_int(m, right))
    for each in (left, right):
        if each.kind == INT:
            m.check(_is_exact(m, each.only))
    ordered = m.b.fcmp_unordered if sign == "!=" else m.b.fcmp_ordered
    return ordered(sign, as_float(m, left), as_float(m, right))


def negative(m: LoopWriter, value: Held) -> Held:
    """Compute ``-value``."""
    value = present(m, value)
    if value.is_known and value.kind in (INT, FLOAT):
        return constant(-value.known)
    if value.kind == INT:
        return Held(INT, (checked(m, "ssub", I64(0), value.only),))
    if value.kind == FLOAT:
        return Held(FLOAT, (m.b.fneg(value.only),))
    raise NotKnownError(f"-{spelled(value.kind)}")


def whole(m: LoopWriter, value: Any) -> Held:
    """Turn a float without a fraction into a whole number; one that is not finite or beyond 64 bits fails the check."""
    within = m.b.and_(
        m.b.fcmp_ordered(">=", value, float_constant(float(INT_LEAST))),
        m.b.fcmp_ordered("<", value, float_constant(-float(INT_LEAST))),
    )
    m.check(within)
    return Held(INT, (m.b.fptosi(value, I64),))


def rounded(m: LoopWriter, name: str, value: Held) -> Held:
    """Round by ``llvm.<name>`` (floor, ceil, trunc, roundeven) to a whole number."""
    value = present(m, value)
    if value.kind == INT:
        return value
    if value.kind != FLOAT:
        raise NotKnownError(f"rounding {spelled(value.kind)}")
    kind = ir.FunctionType(F64, [F64])
    return whole(m, m.b.call(m.module.declare_intrinsic(f"llvm.{name}", (F64,), kind), [value.only]))
