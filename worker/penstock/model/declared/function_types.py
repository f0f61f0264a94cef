"""The types of a user function, from the hints of its parameters and of its result.

    map        f(r: A) -> B
    filter     f(r: A) -> bool
    flat_map   f(r: A, out: ps.Out[B])
    process    f(r: A, s: S, out: ps.Out[B, {"rare": C}]), with side tables f(r: A, s: S, side, out: ps.Out[B])
    on_timer   f(t: ps.Time, key, s: S, out: ps.Out[B, {"rare": C}])
    migrate    f(old: Old) -> S

A function of which no hint is a record, a state or ``ps.Out`` has no types: it gets dicts or batches. Names of
parameters are free. A parameter that has a default keeps it.
"""

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from penstock.base.errors import ConfigError
from penstock.base.user_code import short_path
from penstock.base.values import replace
from penstock.model.declared.hints import OutHint, Time
from penstock.model.declared.record_types import RecordType, record_type
from penstock.model.declared.state_types import StateType, state_type

_OUTPUT = re.compile(r"[a-z]([-a-z0-9_]*[a-z0-9])?")
CONTEXT = "ctx"
_OWN_OUTPUTS = ("main", "late", "late-right", "dead-letter")
_UNREADABLE = object()  # a hint in quotes whose name is not known here


class CallShape(StrEnum):
    """The kinds of steps whose functions may have types. The values are how messages spell them."""

    MAP = "f(r: A) -> B"
    FILTER = "f(r: A) -> bool"
    FLAT_MAP = "f(r: A, out: ps.Out[B])"
    PROCESS = "f(r: A, s: S, out: ps.Out[B])"
    PROCESS_SIDE = "f(r: A, s: S, side, out: ps.Out[B])"
    TIMER = "f(t: ps.Time, key, s: S, out: ps.Out[B])"
    MIGRATE = "f(old: Old) -> S"


@dataclass(frozen=True, slots=True)
class FunctionTypes:
    """What a function takes and gives. ``main`` is None for a filter, ``state`` is None without one."""

    record: RecordType
    main: RecordType | None = None
    state: StateType | None = None
    sides: tuple[tuple[str, RecordType], ...] = ()
    ctx: bool = False  # the function takes a last argument ``ctx``


def function_types(function: Callable[..., Any], shape: CallShape, scope: Mapping[str, Any]) -> FunctionTypes | None:
    """Read the types of a function; None if it has none.

    ``scope`` has the names that hints in quotes may have beside those of the function's module. Raises ConfigError,
    with the place of the function, for types that are not those of ``shape``.
    """
    hints = _hints(function, scope)
    if not any(_is_ours(hint) for hint in hints.values()):
        return None
    reader = _Reader(function, shape, hints)
    match shape:
        case CallShape.MAP:
            reader.take(1)
            return FunctionTypes(reader.record(0), reader.result())
        case CallShape.FILTER:
            reader.take(1)
            reader.check_bool()
            return FunctionTypes(reader.record(0))
        case CallShape.FLAT_MAP:
            reader.take(2)
            main, sides = reader.out(1)
            return FunctionTypes(reader.record(0), main, None, sides)
        case CallShape.PROCESS:
            ctx = reader.take(3, with_context=True)
            main, sides = reader.out(2)
            return FunctionTypes(reader.record(0), main, reader.state(1), sides, ctx)
        case CallShape.PROCESS_SIDE:
            ctx = reader.take(4, with_context=True)
            main, sides = reader.out(3)
            return FunctionTypes(reader.record(0), main, reader.state(1), sides, ctx)
        case CallShape.TIMER | CallShape.MIGRATE:
            raise AssertionError("its types are those of the step: see check_handler and migrated_state")


def check_handler(function: Callable[..., Any], types: FunctionTypes, scope: Mapping[str, Any]) -> None:
    """Check the types of a function that is called when a timer of a step fires. ``types`` are those of the step.

    Raises ConfigError, with the place of the function. It may leave out outputs that the step has.
    """
    reader = _Reader(function, CallShape.TIMER, _hints(function, scope))
    reader.take(4, with_context=True)
    reader.check_time(0)
    reader.check_state(2, types)
    reader.check_out(3, types)


def types_of_both(
    left: Callable[..., Any], left_types: FunctionTypes, right: Callable[..., Any], right_types: FunctionTypes
) -> FunctionTypes:
    """Return the state and the outputs of two functions with one state. The record is that of the left one.

    Raises ConfigError, with the places of both, if they have two states, or two records for one output.
    """
    assert left_types.state is not None, "both have states"
    assert right_types.state is not None, "both have states"
    both = f"{function_place(left)} and {function_place(right)}"
    if left_types.state.python is not right_types.state.python:
        states = f"{left_types.state.name} and {right_types.state.name}"
        raise ConfigError(f"{both} have the states {states}; both inputs share one state")
    outputs = dict(left_types.sides)
    pairs = [("main", left_types.main, right_types.main)]
    pairs += [(name, outputs.get(name, record), record) for name, record in right_types.sides]
    for output, one, other in pairs:
        if one is not None and other is not None and one.python is not other.python:
            raise ConfigError(f"{both} emit {one.name} and {other.name} to {output!r}; an output has one record")
    sides = tuple((outputs | dict(right_types.sides)).items())
    return replace(left_types, sides=sides, ctx=False)


def migrated_state(function: Callable[..., Any], state: StateType, scope: Mapping[str, Any]) -> StateType:
    """Return the earlier state that a function converts to ``state``, that of the step.

    Raises ConfigError, with the place of the function, for other types, and for two states with the same fields.
    """
    reader = _Reader(function, CallShape.MIGRATE, _hints(function, scope))
    reader.take(1)
    return reader.migrated(state)


def takes_context(function: Callable[..., Any]) -> bool:
    """Return whether a function has a parameter ``ctx`` that needs a value."""
    found = inspect.signature(function).parameters.get(CONTEXT)
    return found is not None and found.default is found.empty


def function_place(function: Callable[..., Any]) -> str:
    """Return the name of a function with the file and line where it is written, if it has one."""
    plain = inspect.unwrap(function)
    code = getattr(plain, "__code__", None) or getattr(_call_of(plain), "__code__", None)
    name = getattr(plain, "__qualname__", type(plain).__name__).replace("<locals>.", "")
    return name if code is None else f"{name} ({short_path(code.co_filename)}:{code.co_firstlineno})"


def _call_of(callable_object: object) -> Any:
    """Return the method that runs when an object is called."""
    return getattr(callable_object, "__call__", None)  # noqa: B004  its code and hints are wanted


def _hints(function: Callable[..., Any], scope: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hints of a function, with names in texts looked up where they are known."""
    plain: Any = inspect.unwrap(function)
    if not hasattr(plain, "__code__") and not inspect.ismethod(plain):
        plain = _call_of(plain)
    own = getattr(plain, "__annotations__", None)
    if not isinstance(own, Mapping):
        return {}
    names = getattr(inspect.unwrap(getattr(plain, "__func__", plain)), "__globals__", {})
    return {name: _hint(hint, names, scope) for name, hint in own.items()}


def _hint(hint: Any, names: dict[str, Any], scope: Mapping[str, Any]) -> Any:
    if not isinstance(hint, str):
        return hint
    holder = types.SimpleNamespace(__annotations__={"hint": hint})
    try:
        return typing.get_type_hints(holder, names, dict(scope), include_extras=True)["hint"]
    except ConfigError:  # of a hint that is one of ours, and wrong
        raise
    except Exception:  # code of the user, which may be meant for type checkers only
        return _UNREADABLE


def _out_hint(hint: Any) -> OutHint | None:
    if typing.get_origin(hint) is not Annotated:
        return None
    return next((extra for extra in typing.get_args(hint)[1:] if isinstance(extra, OutHint)), None)


def _is_ours(hint: Any) -> bool:
    return record_type(hint) is not None or state_type(hint) is not None or _out_hint(hint) is not None


class _Reader:
    """Reads the hints of one function. Errors name the function, its place and the shape that is wanted."""

    def __init__(self, function: Callable[..., Any], shape: CallShape, hints: Mapping[str, Any]) -> None:
        self._function, self._shape, self._hints = function, shape, hints
        self._names: list[str] = []

    def _error(self, text: str) -> ConfigError:
        return ConfigError(f"{function_place(self._function)}: {text}; the function must be {self._shape}")

    def take(self, count: int, *, with_context: bool = False) -> bool:
        """Find the parameters. The engine gives ``count`` arguments; others must have defaults.

        ``with_context``: one more may be the last one, ``ctx``. Returns whether it is there.
        """
        places, needed = [], []
        for parameter in inspect.signature(self._function).parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            if parameter.kind is parameter.KEYWORD_ONLY:
                if parameter.default is parameter.empty:
                    raise self._error(f"nothing gives a value to its parameter {parameter.name!r}")
                continue
            places.append(parameter.name)
            if parameter.default is parameter.empty:
                needed.append(parameter.name)
        context = with_context and needed[count:] == [CONTEXT] and places[count] == CONTEXT
        if len(places) < count or len(needed) > count + context:
            raise self._error(f"it has the parameters ({', '.join(places)})")
        self._names = places[:count]
        return context

    def _of(self, place: int) -> tuple[str, Any]:
        name = self._names[place]
        return name, self._hints.get(name)

    def record(self, place: int) -> RecordType:
        """Return the record at a place of the parameters."""
        name, hint = self._of(place)
        found = record_type(hint)
        if found is None:
            raise self._error(f"the hint of {name!r} is {_spell(hint)}, which is no @ps.record")
        return found

    def state(self, place: int) -> StateType:
        """Return the state at a place of the parameters."""
        name, hint = self._of(place)
        found = state_type(hint)
        if found is None:
            raise self._error(f"the hint of {name!r} is {_spell(hint)}, which is no @ps.state")
        return found

    def migrated(self, state: StateType) -> StateType:
        """Return the state at the first place, which becomes ``state``."""
        earlier, result = self.state(0), self._hints.get("return")
        found = state_type(result)
        if found is None or found.python is not state.python:
            raise self._error(f"it returns {_spell(result)}, and the state of the step is {state.name} ({state.place})")
        if {str(f) for f in earlier.fields} == {str(f) for f in state.fields}:
            raise self._error(
                f"{earlier.name} and {state.name} have the same fields, so nothing tells stored states of one from "
                "those of the other: give a field another name or type"
            )
        return earlier

    def out(self, place: int) -> tuple[RecordType, tuple[tuple[str, RecordType], ...]]:
        """Return the records of the outputs at a place of the parameters."""
        name, hint = self._of(place)
        found = _out_hint(hint)
        if found is None:
            raise self._error(f"the hint of {name!r} is {_spell(hint)}, which is no ps.Out[...]")
        result = self._hints.get("return")
        if result not in (None, types.NoneType, _UNREADABLE):
            raise self._error(f"it returns {_spell(result)}, and records are emitted by {name}.emit(...)")
        return self._emitted(found.main), tuple((self._output(n), self._emitted(r)) for n, r in found.sides)

    def check_time(self, place: int) -> None:
        """Raise ConfigError if the parameter at a place has a hint that is no time."""
        name, hint = self._of(place)
        if hint not in (None, int, Time, _UNREADABLE):
            raise self._error(f"the hint of {name!r} is {_spell(hint)}, which is no ps.Time")

    def check_state(self, place: int, types: FunctionTypes) -> None:
        """Raise ConfigError if the state at a place is another one than that of the step."""
        found, wanted = self.state(place), types.state
        if wanted is None or found.python is not wanted.python:
            of_step = "none" if wanted is None else wanted.name
            raise self._error(f"its state is {found.name} ({found.place}), and that of the step is {of_step}")

    def check_out(self, place: int, types: FunctionTypes) -> None:
        """Raise ConfigError if an output at a place is none of the step's."""
        main, sides = self.out(place)
        own = {"main": types.main, **dict(types.sides)}
        for output, record in (("main", main), *sides):
            wanted = own.get(output)
            if wanted is None:
                raise self._error(f"it emits to {output!r}, which is no output of the function of the step")
            if record.python is not wanted.python:
                raise self._error(f"it emits {record.name} to {output!r}, and the step emits {wanted.name}")

    def _emitted(self, hint: object) -> RecordType:
        found = record_type(hint)
        if found is None:
            raise self._error(f"ps.Out has {_spell(hint)}, which is no @ps.record")
        return found

    def _output(self, name: object) -> str:
        if not isinstance(name, str) or name in _OWN_OUTPUTS or not _OUTPUT.fullmatch(name):
            raise self._error(
                f"{name!r} is no name of an output: write a lower-case letter, then letters, digits, - and _, and "
                f"none of {', '.join(_OWN_OUTPUTS)}"
            )
        return name

    def result(self) -> RecordType:
        """Return the record that the function returns."""
        hint = self._hints.get("return")
        found = record_type(hint)
        if found is None:
            raise self._error(f"it returns {_spell(hint)}, which is no @ps.record")
        return found

    def check_bool(self) -> None:
        """Raise ConfigError if the function says that it returns something else than a bool."""
        hint = self._hints.get("return", bool)
        if hint is not bool:
            raise self._error(f"it returns {_spell(hint)}")


def _spell(hint: object) -> str:
    if hint is None:
        return "missing"
    if hint is _UNREADABLE:
        return "a name that is not known here"
    out = _out_hint(hint)
    if out is not None:
        return f"ps.Out[{_spell(out.main)}]"
    return hint.__name__ if isinstance(hint, type) else str(hint)
