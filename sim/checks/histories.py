"""A checker of histories: it knows what callers saw, and nothing of the stores.

A history is a list of calls to one object: when each call began, when its reply came, and what the
reply said. The object is a register with versions. A read returns its version. A swap replaces one
version by a fresh one, or reports a conflict.

A history is *linearizable* if there is an order of its calls in which each reply is what a register
would say, and in which a call comes before all calls that began after its reply. A call without a
reply may have taken effect at any time after it began, or never.

The search is that of Wing and Gong ("Testing and verifying concurrent objects", 1993), with the
memory of Lowe ("Testing for linearizability", 2017). A version never comes back, so few orders are
left to try.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf

from penstock.base.values import replace


class Outcome(Enum):
    """What the caller of a swap was told. Nothing is told of a call without a reply."""

    DONE = "done"
    CONFLICT = "conflict"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ReadCall:
    """A read that was answered. ``label`` identifies the content that it returned."""

    client: str
    begun: float
    ended: float
    version: str
    label: object


@dataclass(frozen=True, slots=True)
class SwapCall:
    """A swap of ``expected`` for a fresh version. ``made`` is None unless the caller was told it."""

    client: str
    begun: float
    ended: float
    expected: str
    made: str | None
    label: object
    outcome: Outcome


RegisterCall = ReadCall | SwapCall


@dataclass(frozen=True, slots=True)
class RegisterState:
    """What the register holds. The version of an unknown swap is None until a reply tells it."""

    version: str | None
    label: object

    def after(self, call: RegisterCall) -> "RegisterState | None":
        """Return the state after a call, or None if the reply of the call is impossible in this state."""
        if isinstance(call, ReadCall):
            seen = self.label == call.label and self.version in (None, call.version)
            return RegisterState(call.version, call.label) if seen else None
        if call.outcome is Outcome.CONFLICT:
            return self if self.version != call.expected else None
        if self.version != call.expected:
            return None
        return RegisterState(call.made, call.label)


@dataclass(frozen=True, slots=True)
class Linearization:
    """``order``: the applied swaps, in order. ``stuck``: the calls of which none can come next, or none."""

    order: tuple[SwapCall, ...]
    stuck: tuple[RegisterCall, ...] = ()


@dataclass(frozen=True, slots=True)
class _Branch:
    """One order under trial.

    ``first`` is the first call that is not in it, and ``later`` are calls behind that one which are.
    ``gone`` are the versions that were replaced.
    """

    first: int
    later: frozenset[int]
    state: RegisterState
    swaps: tuple[SwapCall, ...] = ()
    gone: frozenset[str | None] = frozenset()


def linearize(first: RegisterState, history: Sequence[RegisterCall]) -> Linearization:
    """Return an order that explains a history of a register that begins as ``first``.

    If there is none, the answer is that of the longest order that was found, with the calls that
    do not fit behind it.
    """
    calls = sorted(history, key=lambda call: call.begun)
    branches = [_Branch(0, frozenset(), first)]
    seen: set[tuple[int, frozenset[int], RegisterState]] = set()
    best, stuck = branches[0], tuple(calls[:1])
    while branches:
        branch = _with_settled_calls(branches.pop(), calls)
        key = (branch.first, branch.later, branch.state)
        if key in seen:
            continue
        seen.add(key)
        next_ones = _next_calls(branch, calls)
        if not any(calls[at].ended < inf for at in next_ones):
            return Linearization(branch.swaps)
        if branch.first + len(branch.later) >= best.first + len(best.later):
            best, stuck = branch, tuple(calls[at] for at in next_ones)
        branches += [b for at in reversed(next_ones) if (b := _swapped(branch, calls, at)) is not None]
    return Linearization(best.swaps, stuck)


def _next_calls(branch: _Branch, calls: Sequence[RegisterCall]) -> list[int]:
    """List the calls that may come next: each began before every missing call had its reply."""
    found: list[int] = []
    bound = inf
    for at in range(branch.first, len(calls)):
        if calls[at].begun > bound:
            break
        if at not in branch.later:
            found.append(at)
            bound = min(bound, calls[at].ended)
    return found


def _with_settled_calls(branch: _Branch, calls: Sequence[RegisterCall]) -> _Branch:
    """Append the calls that change nothing. No order is lost by that.

    A read or a conflict that fits fits at once. An unknown swap of a version that is gone was never
    applied, because no version comes back.
    """
    found = True
    while found:
        found = False
        for at in _next_calls(branch, calls):
            longer = _without_effect(branch, calls[at])
            if longer is not None:
                branch, found = _with_call(longer, calls, at), True
                break
    return branch


def _without_effect(branch: _Branch, call: RegisterCall) -> _Branch | None:
    """Return the branch for a call without effect, or None if the call may have one or does not fit."""
    state = branch.state.after(call)
    if isinstance(call, SwapCall) and call.outcome is Outcome.UNKNOWN:
        return branch if call.expected in branch.gone else None
    if state is None or (isinstance(call, SwapCall) and call.outcome is Outcome.DONE):
        return None
    return replace(branch, state=state)


def _swapped(branch: _Branch, calls: Sequence[RegisterCall], at: int) -> _Branch | None:
    """Return the branch behind a swap that takes effect now, or None if it cannot."""
    call = calls[at]
    state = branch.state.after(call)
    if state is None or not isinstance(call, SwapCall) or call.outcome is Outcome.CONFLICT:
        return None
    longer = replace(branch, state=state, swaps=(*branch.swaps, call), gone=branch.gone | {branch.state.version})
    return _with_call(longer, calls, at)


def _with_call(branch: _Branch, calls: Sequence[RegisterCall], at: int) -> _Branch:
    """Mark a call as placed."""
    first, later = branch.first, branch.later | {at}
    while first in later:
        later -= {first}
        first += 1
    return replace(branch, first=first, later=later)
