"""Records the histories of ``-latest``, the Lease and publications as their callers see them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

from penstock.contract.ids import SwapId
from penstock.contract.latest import Latest
from sim.checks.histories import Outcome, ReadCall, RegisterCall, RegisterState, SwapCall, linearize
from sim.cluster.services import Disk, StoredFile
from sim.kernel.calls import Call, MetaGet, MetaSwap, PublishFile, PublishTable, ReadLease, Reply, WriteLease
from sim.kernel.kernel import Violation

LEASE = "lease"
SHOWN_MAX = 4  # calls in the text of a violation


@dataclass(slots=True)
class Register:
    """The history of one object: its first state, and its calls. Calls without a reply come last."""

    first: RegisterState
    calls: list[RegisterCall] = field(default_factory=list)
    waiting: dict[int, tuple[int, Call]] = field(default_factory=dict)


class CallRecorder:
    """Notes calls when they are sent, and replies when they are delivered. Never looks into a store."""

    def __init__(self, now_us: Callable[[], int], latest_name: str) -> None:
        """Record the calls for ``latest_name`` and for the Lease."""
        self._now_us = now_us
        self._latest_name = latest_name
        self._registers: dict[str, Register] = {}
        self._written: dict[SwapId, Latest] = {}
        self._published: dict[str, object] = {}

    def begin(self, name: str, version: str, label: object) -> None:
        """Begin a new history of an object. The history before it must have been checked."""
        self._registers[name] = Register(RegisterState(version, label))

    def sent(self, call: Call) -> None:
        """Note a call on its way to a store."""
        register = self._register_of(call.op)
        if register is not None:
            register.waiting[id(call.token)] = self._now_us(), call
            if isinstance(call.op, MetaSwap) and isinstance(call.op.data, Latest):
                self._written[call.op.data.swap_id] = call.op.data

    def delivered(self, event: object) -> None:
        """Note a reply that its caller is about to get. Other events are ignored."""
        if not isinstance(event, Reply):
            return
        if isinstance(event.op, PublishFile | PublishTable) and not event.error:
            files = (event.op,) if isinstance(event.op, PublishFile) else event.op.files
            self._published.update({file.target: file.content for file in files})
        register = self._register_of(event.op)
        begun, call = register.waiting.pop(id(event.token), (0, None)) if register is not None else (0, None)
        if register is not None and call is not None and call.token is event.token:
            seen = _answered(call.client, call.op, begun, self._now_us(), event)
            register.calls += [] if seen is None else [seen]

    def _register_of(self, op: object) -> Register | None:
        if isinstance(op, ReadLease | WriteLease):
            return self._registers.get(LEASE)
        named = isinstance(op, MetaGet | MetaSwap) and op.name == self._latest_name
        return self._registers.get(self._latest_name) if named else None

    def check(self) -> None:
        """Raise Violation if no order of the calls explains what the callers were told."""
        for name in self._registers:
            order = self._order(name)
            if name == self._latest_name:
                back = numbers_that_go_back([self._written[SwapId(str(s.label))] for s in order])
                if back:
                    raise Violation("G", back[0])

    def check_publications(self, disk: Disk) -> None:
        """Raise Violation if output that was reported as published is not visible with that content."""
        for target, content in self._published.items():
            if disk.visible.get(target) != content:
                raise Violation("E", f"{target} was reported as published, and is not visible")

    def _order(self, name: str) -> tuple[SwapCall, ...]:
        register = self._registers[name]
        lost = [_unanswered(call, begun) for begun, call in register.waiting.values()]
        found = linearize(register.first, [*register.calls, *(call for call in lost if call is not None)])
        if found.stuck:
            shown = "; ".join(str(call) for call in found.stuck[:SHOWN_MAX])
            raise Violation("G", f"no order of the calls to {name} explains these replies: {shown}")
        return found.order


_NUMBERS: dict[str, Callable[[Latest], int]] = {
    "the term": lambda latest: latest.term,
    "the attempt": lambda latest: latest.attempt,
    "the version": lambda latest: latest.version,
    "the newest epoch ever": lambda latest: latest.max_epoch,
}


def numbers_that_go_back(history: Sequence[Latest]) -> list[str]:
    """List the numbers that are smaller in a later value of ``-latest``, each with both values."""
    return [
        f"{what} goes back from {number(before)} to {number(after)}"
        for before, after in pairwise(history)
        for what, number in _NUMBERS.items()
        if number(after) < number(before)
    ]


def _answered(client: str, op: object, begun: int, ended: int, reply: Reply) -> RegisterCall | None:
    """Return a call with its reply. A failed read says nothing."""
    known = _content(reply.value) if not reply.error else None
    match op:
        case MetaGet() | ReadLease():
            return None if known is None else ReadCall(client, begun, ended, *known)
        case MetaSwap() | WriteLease():
            made = None if known is None else known[0]
            outcome = {"": Outcome.DONE, "conflict": Outcome.CONFLICT}.get(reply.error, Outcome.UNKNOWN)
            over = inf if outcome is Outcome.UNKNOWN else ended
            return SwapCall(client, begun, over, op.version or "", made, _label(op), outcome)
    return None


def _unanswered(call: Call, begun: int) -> SwapCall | None:
    """Return a swap whose caller died or waits. A read without a reply says nothing."""
    if not isinstance(call.op, MetaSwap | WriteLease):
        return None
    return SwapCall(call.client, begun, inf, call.op.version or "", None, _label(call.op), Outcome.UNKNOWN)


def _label(op: MetaSwap | WriteLease) -> object:
    if isinstance(op, WriteLease):
        return op.holder
    assert isinstance(op.data, Latest)
    return op.data.swap_id


def _content(value: object) -> tuple[str, object] | None:
    """Return version and label of what a store returned, or None if there was no object."""
    match value:
        case StoredFile(data, version):
            return version, data.swap_id if isinstance(data, Latest) else None
        case (holder, str(version)):
            return version, holder
    return None
