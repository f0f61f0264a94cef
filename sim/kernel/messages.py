"""The messages of a simulated engine, beside streams and replies."""

from dataclasses import dataclass

from penstock.contract.control_messages import Command
from penstock.contract.ids import Attempt, TaskId, Term
from penstock.model.elements import Barrier


@dataclass(frozen=True, slots=True)
class Order:
    """A command from the keeper."""

    term: Term
    command: Command


@dataclass(frozen=True, slots=True)
class Doomed:
    """The process dies now: it has met a record that no process survives."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """The job's code is loaded: the engine sends EngineHello."""


@dataclass(frozen=True, slots=True)
class SocketClosed:
    """The keeper is gone. An engine that can run does not outlive its keeper."""


@dataclass(frozen=True, slots=True)
class Leave:
    """SIGTERM to a keeper: it ends after a last checkpoint, or when ``grace_us`` are over."""

    grace_us: int
    soon: bool
    last: bool


@dataclass(frozen=True, slots=True)
class RunTask:
    """One task may take one input."""

    task: TaskId
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Heard:
    """A task met a barrier in band that the sources of its worker may not know."""

    attempt: Attempt
    barrier: Barrier


@dataclass(frozen=True, slots=True)
class Beat:
    """Time to repeat the status, which is the engine's sign of life."""


@dataclass(frozen=True, slots=True)
class Poll:
    """Time to look at the splits again."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The token of a call: which attempt asked, and for what."""

    attempt: Attempt
    token: object
