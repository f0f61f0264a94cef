"""How a step makes asynchronous calls: what it says of a call, and who brings the answers."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from penstock.base.limits import RETRY_WAIT_S_MAX
from penstock.contract.asynchronous import Retries
from penstock.contract.keygroups import Share
from penstock.steps.kept_records import kept_value

Ask = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What a call gave: a value, or the error that it raised."""

    call: int
    value: Any = None
    error: BaseException | None = None


class AsyncCalls(Protocol):
    """Makes the calls of one task, several at once. All methods are called by the thread of the task.

    ``tries_max`` is how often the engine itself asks a server that is away; None: until it is there.
    """

    tries_max: int | None

    def begin(self, source: object, call: int, ask: Ask) -> None:
        """Begin a call of ``source``. Does not wait for it."""
        ...

    def answers(self, source: object) -> list[CallOutcome]:
        """Return the answers to calls of ``source`` that have come since the last time."""
        ...

    @property
    def answered(self) -> bool:
        """Return whether :meth:`answers` has something to return."""
        ...

    def close(self) -> None:
        """Cancel all calls, and release what makes them."""
        ...


@runtime_checkable
class AskingStep(Protocol):
    """A step whose rows wait for answers."""

    def ask_through(self, calls: AsyncCalls) -> None:
        """Make calls through ``calls``. Called once, before rows come."""
        ...

    @property
    def waiting(self) -> int:
        """Return how many rows wait."""
        ...

    @property
    def full(self) -> bool:
        """Return whether no more rows should come before answers do."""
        ...

    def on_loaded(self) -> None:
        """Ask for the rows that wait in state that was loaded."""
        ...

    def on_groups_lost(self, share: Share) -> None:
        """Forget rows of key groups that belong to another task now."""
        ...

    def on_answers(self) -> None:
        """Take the answers that have come, and emit the rows that leave by them."""
        ...


@dataclass(frozen=True, slots=True)
class CallRules:
    """How a call is made: how long one attempt may last, and after which errors it is made again."""

    timeout_s: float
    retries: Retries | None

    async def run(self, function: Callable[[Any], Awaitable[Any]], argument: Any, again: Callable[[], Any]) -> Any:
        """Call the function until it returns, or no attempt is left. Raises what its last attempt raised.

        ``again`` makes the argument of a further attempt: the one before may have changed its own.
        """
        retries = self.retries
        left = 0 if retries is None else retries.most
        wait_s = 0.0 if retries is None else retries.wait_us / 1e6
        while True:
            try:
                async with asyncio.timeout(self.timeout_s):
                    return kept_value(await function(argument))
            except Exception as error:
                if retries is None or not left or not _listed(error, retries.on):
                    raise
            left -= 1
            await asyncio.sleep(wait_s)
            argument = again()
            wait_s = min(wait_s * retries.factor, RETRY_WAIT_S_MAX)


def _listed(error: BaseException, classes: tuple[str, ...]) -> bool:
    """Return whether an error is of one of the classes, or of a class below them. No class: every error is."""
    names = {f"{each.__module__}:{each.__qualname__}" for each in type(error).__mro__}
    return not classes or not names.isdisjoint(classes)


async def outcome_of(call: int, ask: Ask) -> CallOutcome:
    """Make a call, and return its answer. Raises only when it is cancelled."""
    try:
        return CallOutcome(call, await ask())
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # the user's code may raise anything; the thread of the task decides
        return CallOutcome(call, error=error)
