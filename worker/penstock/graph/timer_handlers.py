"""Checks the functions that are called when timers fire, against the state of their step."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.model.declared.field_kinds import TimerField, TimersField
from penstock.model.declared.function_types import FunctionTypes, check_handler
from penstock.model.declared.state_types import StateType

Handlers = Mapping[str, Callable[..., Any]]


def timer_role(timer: str) -> str:
    """Name the role of the function that is called when a timer of a step fires."""
    return f"timer {timer}"


def check_handlers(types: FunctionTypes | None, handlers: Handlers, place: str, scope: Mapping[str, Any]) -> None:
    """Refuse a handler whose timer does not exist, and a timer that has no handler.

    ``types`` are those of the step's function. ``place`` begins error messages, and ``scope`` has the names that hints
    in quotes may have. Raises ConfigError.
    """
    state = None if types is None else types.state
    if types is None or state is None:
        if handlers:
            raise ConfigError(f"{place}: on_timer: only a @ps.state has timers: give the function of the step types")
        return
    timers = fired_timers(state)
    for name, function in handlers.items():
        if name not in timers:
            raise ConfigError(
                f"{place}: on_timer: state {state.name} ({state.place}): {unknown('timer', name, timers)}"
            )
        if not callable(function):
            raise ConfigError(f"{place}: on_timer: {name!r}: {function!r} is not a function")
        try:
            check_handler(function, types, scope)
        except ConfigError as error:
            raise ConfigError(f"{place}: on_timer: {name!r}: {error}") from None
    for name in timers:
        if name not in handlers and isinstance(state.field(name).kind, TimerField):
            raise ConfigError(
                f"{place}: nothing is called when {state.name}.{name} ({state.place}) fires: write "
                f"on_timer={{{name!r}: f}}, in a job file onTimer: [{{timer: {name}, function: ...}}]"
            )


def fired_timers(state: StateType) -> tuple[str, ...]:
    """List the fields of a state at whose times a function is called. Without a function ``ps.Timers`` is a set."""
    return tuple(f.name for f in state.fields if isinstance(f.kind, TimerField | TimersField))


def event_timers(types: FunctionTypes | None, called: Collection[str]) -> tuple[str, ...]:
    """List the timers of event time among the fields of a step's state. ``called`` are the names in ``on_timer``."""
    if types is None or types.state is None:
        return ()
    clocks = {f.name for f in types.state.fields if isinstance(f.kind, TimerField) and f.kind.clock}
    return tuple(name for name in fired_timers(types.state) if name in called and name not in clocks)


def in_order(types: FunctionTypes, handlers: Handlers) -> Handlers:
    """Return the handlers in the order of the fields of the state. Timers of one key and time fire in this order."""
    assert types.state is not None, "a process has a state"
    return {field.name: handlers[field.name] for field in types.state.fields if field.name in handlers}
