"""Pools of the parts of immutable states: equal parts are one object, and each step is taken once.

The search compares and stores tens of thousands of states that differ in one part each. Here every
distinct part exists once, so states are compared by the identity of their parts. A core that gets
the same event in the same state again is not stepped again, because its answer cannot differ.
"""

from collections.abc import Hashable
from enum import Enum
from typing import Any, TypeVar

from penstock.contract.codec import Message
from penstock.protocol.task import task_messages as ev
from penstock.protocol.task.task_core import TaskCore

T = TypeVar("T", bound=Hashable)

Step = tuple[TaskCore, tuple[ev.Action, ...]]


class Pool:
    """Keeps one object of each value."""

    def __init__(self) -> None:
        """Begin empty."""
        self._values: dict[Hashable, Any] = {}

    def keep(self, value: T) -> T:
        """Return the one object that equals ``value``."""
        kept: T = self._values.setdefault(value, value)
        return kept


class Cores:
    """Keeps one core of each distinct state. A core that it returns is never changed."""

    def __init__(self) -> None:
        """Begin empty."""
        self._cores: dict[Hashable, TaskCore] = {}
        self._steps: dict[tuple[TaskCore, ev.Event], Step] = {}

    def keep(self, core: TaskCore) -> TaskCore:
        """Return the one core with the state of ``core``. It may be ``core`` itself."""
        return self._cores.setdefault(structure(core), core)

    def step(self, core: TaskCore, event: ev.Event) -> Step:
        """Return the core after an event, and its actions."""
        known = self._steps.get((core, event))
        if known is None:
            copy: TaskCore = copied(core, {})
            actions = tuple(copy.step(event, 0.0))
            known = self._steps[core, event] = (self.keep(copy), actions)
        return known


def structure(value: Any) -> Hashable:
    """Return a value that two machines share if and only if their states are equal.

    A machine is its attributes; a frozen value is itself; the order of a dict counts, because a
    core may act on it.
    """
    match value:
        case dict():
            return tuple((structure(k), structure(v)) for k, v in value.items())
        case list() | tuple():
            return tuple(structure(v) for v in value)
        case set():
            return frozenset(structure(v) for v in value)
        case _ if _is_machine(value):
            return (type(value), *(structure(getattr(value, name)) for name in _fields(value)))
        case Hashable():
            return value
    raise AssertionError(f"no state of a core may be a {type(value).__name__}")


def copied(value: Any, done: dict[int, Any]) -> Any:
    """Copy machines and containers; frozen values are shared. ``done`` preserves aliases."""
    match value:
        case dict():
            return {k: copied(v, done) for k, v in value.items()}
        case list():
            return [copied(v, done) for v in value]
        case set():
            return {copied(v, done) for v in value}
        case _ if _is_machine(value):
            if id(value) not in done:
                done[id(value)] = made = object.__new__(type(value))
                for name in _fields(value):
                    object.__setattr__(made, name, copied(getattr(value, name), done))
            return done[id(value)]
    return value


def _is_machine(value: object) -> bool:
    """Return whether a value of the core changes in place: none that has a hash, and no enum does."""
    kind = type(value)
    made = getattr(kind, "__dataclass_params__", None)
    fixed = isinstance(value, Enum | Message) or (made is not None and (made.frozen or made.unsafe_hash))
    return kind.__module__.startswith("penstock.protocol") and not fixed


def _fields(value: object) -> list[str]:
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return [*slots, *getattr(value, "__dict__", ())]
