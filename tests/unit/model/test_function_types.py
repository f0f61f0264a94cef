"""Which hints give a function types, and which are refused, with the place of the function."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.model.declared.function_types import CallShape, FunctionTypes, function_place, function_types
from penstock.model.declared.record_types import record_type
from penstock.model.declared.state_types import state_type

HERE = r"test_function_types\.py:\d+\)"


@ps.record
class A:
    n: int


@ps.record
class B:
    text: str


@ps.state
class S:
    total: int = 0


def types_of(function: Callable[..., Any], shape: CallShape) -> FunctionTypes | None:
    return function_types(function, shape, {})


def one_to_one(r: A) -> B:
    return B(str(r.n))


def keeps(r: A) -> bool:
    return r.n > 0


def spreads(r: A, out: ps.Out[B]) -> None:
    out.emit(B(str(r.n)))


def keyed(r: A, s: S, out: ps.Out[B, {"odd": A}]) -> None:  # type: ignore[type-arg,misc] # noqa: F821
    s.total += r.n


def quoted(r: "A", s: "S", out: "ps.Out[B]") -> None:
    s.total += r.n


class Scorer:
    def __call__(self, r: A) -> B:
        return B(str(r.n))

    def score(self, r: A, limit: int = 3) -> B:
        return B(str(r.n * limit))


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: Any) -> Any:
        return function(*arguments)

    return call


def test_types_are_those_of_the_hints() -> None:
    a, b, s = record_type(A), record_type(B), state_type(S)
    assert a is not None
    assert types_of(one_to_one, CallShape.MAP) == FunctionTypes(a, b)
    assert types_of(keeps, CallShape.FILTER) == FunctionTypes(a)
    assert types_of(spreads, CallShape.FLAT_MAP) == FunctionTypes(a, b)
    assert types_of(keyed, CallShape.PROCESS) == FunctionTypes(a, b, s, (("odd", a),))
    assert types_of(quoted, CallShape.PROCESS) == FunctionTypes(a, b, s)


@pytest.mark.parametrize("function", [Scorer(), Scorer().score, traced(one_to_one)])
def test_objects_methods_and_wrapped_functions_have_types(function: Callable[..., Any]) -> None:
    assert types_of(function, CallShape.MAP) == types_of(one_to_one, CallShape.MAP)
    assert "test_function_types.py:" in function_place(function)


def test_names_of_the_place_where_a_job_is_built_are_known() -> None:
    @ps.record
    class Inner:
        n: int

    def f(r: "Inner") -> "Inner":
        return r

    found = function_types(f, CallShape.MAP, locals())
    assert found is not None
    assert found.record.python is Inner


@pytest.mark.parametrize(
    "function",
    [lambda r: r, len, ps.SeqNode.__call__, lambda r, s: [r]],
)
def test_functions_without_such_hints_have_no_types(function: Callable[..., Any]) -> None:
    assert types_of(function, CallShape.MAP) is None


def test_hints_for_type_checkers_only_are_left_alone() -> None:
    def f(r: "Unknown") -> "Other":  # type: ignore[name-defined] # noqa: F821
        return r

    assert types_of(f, CallShape.MAP) is None


def no_record(r: dict[str, Any], s: S, out: ps.Out[B]) -> None: ...
def no_state(r: A, s: dict[str, Any], out: ps.Out[B]) -> None: ...
def no_out(r: A, s: S) -> list[B]: ...  # type: ignore[empty-body]
def other_out(r: A, s: S, out: list[B]) -> None: ...
def gives(r: A, s: S, out: ps.Out[B]) -> list[B]: ...  # type: ignore[empty-body]
def emits_text(r: A, s: S, out: ps.Out[str]) -> None: ...
def own_output(r: A, s: S, out: ps.Out[B, {"late": A}]) -> None: ...  # type: ignore[type-arg,misc] # noqa: F821
def bad_output(r: A, s: S, out: ps.Out[B, {"Rare!": A}]) -> None: ...  # type: ignore[type-arg,misc] # noqa: F722
def one_more(r: A, s: S, out: ps.Out[B], limit: int) -> None: ...
def by_name(r: A, s: S, out: ps.Out[B], *, limit: int) -> None: ...
def text_back(r: A) -> str: ...  # type: ignore[empty-body]
def nothing_back(r: A): ...  # type: ignore[no-untyped-def]
def state_in_a_map(r: S) -> B: ...  # type: ignore[empty-body]
def whole_back(r: A) -> int: ...  # type: ignore[empty-body]
def unknown(r: A) -> "Missing": ...  # type: ignore[name-defined] # noqa: F821


@pytest.mark.parametrize(
    ("function", "shape", "text"),
    [
        (no_record, CallShape.PROCESS, r"the hint of 'r' is dict\[str, typing.Any\], which is no @ps.record"),
        (no_state, CallShape.PROCESS, r"the hint of 's' is dict\[str, typing.Any\], which is no @ps.state"),
        (no_out, CallShape.PROCESS, r"it has the parameters \(r, s\); the function must be f\(r: A, s: S, out: ps.Out"),
        (other_out, CallShape.PROCESS, r"the hint of 'out' is list\[.*B\], which is no ps.Out"),
        (gives, CallShape.PROCESS, r"it returns list\[.*B\], and records are emitted by out.emit"),
        (emits_text, CallShape.PROCESS, "ps.Out has str, which is no @ps.record"),
        (own_output, CallShape.PROCESS, "'late' is no name of an output"),
        (bad_output, CallShape.PROCESS, "'Rare!' is no name of an output"),
        (one_more, CallShape.PROCESS, r"it has the parameters \(r, s, out, limit\)"),
        (by_name, CallShape.PROCESS, "nothing gives a value to its parameter 'limit'"),
        (text_back, CallShape.MAP, "it returns str, which is no @ps.record"),
        (nothing_back, CallShape.MAP, "it returns missing, which is no @ps.record"),
        (unknown, CallShape.MAP, "it returns a name that is not known here"),
        (state_in_a_map, CallShape.MAP, "the hint of 'r' is S, which is no @ps.record"),
        (whole_back, CallShape.FILTER, r"it returns int; the function must be f\(r: A\) -> bool"),
        (keyed, CallShape.FLAT_MAP, r"it has the parameters \(r, s, out\)"),
    ],
)
def test_other_types_are_refused_with_the_place(function: Callable[..., Any], shape: CallShape, text: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{function.__name__} \(.*{HERE}: {text}"):
        types_of(function, shape)
