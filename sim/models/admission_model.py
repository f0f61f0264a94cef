"""A small model of two admissions: every order of resets, openings, dials and deliveries.

There are two workers, one channel each way, and three attempts. Both workers use the real Admission.
The leader of the model may do anything: it resets and starts each worker at any time. So a sender
may be ahead of its receiver or behind it, and a hello may be late by any time. Checked at each
acceptance: the stream is of the receiver's attempt. Checked in each final state: the last attempt
has its streams.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.base.values import replace
from penstock.contract.ids import (
    Attempt,
    ChannelId,
    Incarnation,
    JobUid,
    Ordinal,
    StageIndex,
    TaskId,
)
from penstock.model.wire import AdmissionVerdict, ChannelHello
from penstock.protocol.channel.admission import Admission
from sim.kernel.kernel import Violation
from sim.models.pool import copied, structure

JOB = JobUid("job")
SCHEMA = b"s" * 32
LAST = Attempt(3)
WORKERS = (Ordinal(0), Ordinal(1))
LIVES = {w: Incarnation(f"life-{w}") for w in WORKERS}
TASKS = {w: TaskId(StageIndex(0), w, 0) for w in WORKERS}
CHANNELS = {w: ChannelId(0, TASKS[w], TASKS[Ordinal(1 - w)]) for w in WORKERS}  # by sender


@dataclass(frozen=True, slots=True)
class AdmissionModelState:
    """Both admissions, hellos under way, and the accepted (sender, attempt) pairs."""

    admissions: tuple[Admission, ...]
    wire: tuple[ChannelHello, ...] = ()
    let_in: tuple[tuple[Ordinal, Attempt], ...] = ()


class AdmissionModel:
    """The rules of the model: the possible steps, and their results."""

    def first(self) -> AdmissionModelState:
        """Return the state in which no worker has begun."""
        return AdmissionModelState(tuple(Admission(JOB, w) for w in WORKERS))

    def key(self, state: AdmissionModelState) -> Any:
        """Return a key that only equal states share."""
        admissions = tuple(structure(admission) for admission in state.admissions)
        return admissions, tuple(sorted(map(repr, state.wire))), frozenset(state.let_in)

    def following(self, state: AdmissionModelState) -> Iterator[AdmissionModelState]:
        """Yield every state that follows by one step."""
        for worker, admission in zip(WORKERS, state.admissions, strict=True):
            if admission.attempt < LAST:
                yield self._reset(state, worker)
            if admission.attempt > 0 and not admission.is_open:
                yield self._open(state, worker)
        for hello in state.wire:
            yield self._deliver(state, hello)

    def _reset(self, state: AdmissionModelState, worker: Ordinal) -> AdmissionModelState:
        admissions = copied(list(state.admissions), {})
        admissions[worker].reset(Attempt(admissions[worker].attempt + 1))
        return replace(state, admissions=tuple(admissions))

    def _open(self, state: AdmissionModelState, worker: Ordinal) -> AdmissionModelState:
        admissions = copied(list(state.admissions), {})
        other = Ordinal(1 - worker)
        admissions[worker].open({other: LIVES[other]}, {CHANNELS[other]: SCHEMA})
        attempt = admissions[worker].attempt
        hello = ChannelHello(JOB, attempt, LIVES[worker], CHANNELS[worker], SCHEMA)
        return replace(state, admissions=tuple(admissions), wire=(*state.wire, hello))

    def _deliver(self, state: AdmissionModelState, hello: ChannelHello) -> AdmissionModelState:
        admissions = copied(list(state.admissions), {})
        admission = admissions[hello.receiver]
        decision = admission.admit(hello)
        if decision.verdict is AdmissionVerdict.HELD:
            return state  # it is tried again when the admission has changed
        wire = tuple(h for h in state.wire if h is not hello)
        after = replace(state, admissions=tuple(admissions), wire=wire)
        if decision.verdict is AdmissionVerdict.REFUSED:
            return after
        if hello.attempt != admission.attempt:
            raise Violation("G", f"attempt {admission.attempt} lets in a stream of {hello.attempt}")
        return replace(after, let_in=(*state.let_in, (hello.sender, hello.attempt)))

    def check_end(self, state: AdmissionModelState) -> None:
        """Check a final state: every stream of the last attempt was accepted once."""
        for worker in WORKERS:
            if state.let_in.count((worker, LAST)) != 1:
                raise Violation("L", f"the last stream of worker {worker} was not let in")
