"""The checkpoint coordinator: one checkpoint is in flight, and one swap commits it.

::

    idle ──due or requested, and the last epoch is published──> BARRIER (Inject until seen)
      ▲                                                            │ all tasks acknowledged
      │ failed or timed out before the swap: Abort                 ▼
      ├────────────────────────────────────────────────────────── ROOT (manifest written)
      │                                                            │ one swap
      │ published by all members                                   ▼
      └────────────────────────────────────────────────────────── COMMITTED (Commit until published)

Once the swap is sent, only the outcome of the swap decides about the epoch: nothing aborts it any
more. No checkpoint starts before the output of the one before it is published.

A checkpoint also counts rows: those read by each source, and those written by each sink. The offset
of a split is the number of its rows that were read. A sink's rows are in its handles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.base.values import replace
from penstock.contract.codec import ABSENT
from penstock.contract.control_messages import (
    Abort,
    Commit,
    EpochFailed,
    Expedite,
    Inject,
    PublishFailed,
    TaskAck,
)
from penstock.contract.ids import ROOT_SUFFIX, BlobName, Epoch, StageIndex, TaskId
from penstock.contract.latest import Answer, Retained
from penstock.contract.manifest import BlobRef, CopyDigest, RootManifest, StepRows, TaskManifest
from penstock.contract.plan import Assignment, PhysicalPlan
from penstock.model.elements import BarrierKind
from penstock.protocol.leader.leader_state import LeaderPhase, LeaderState
from penstock.protocol.leader.leader_storage import ManifestCache


@dataclass(slots=True)
class InFlightCheckpoint:
    """The checkpoint in flight.

    - ``assignment``: the table that holds behind its barrier; ``tasks``: those that acknowledge it.
    - ``requests``: the requests that are answered when it is published; ``keep``: the request of the
      savepoint that it becomes.
    - ``expedited``: the members know that somebody waits for it.
    """

    epoch: Epoch
    kind: BarrierKind
    assignment: Assignment
    tasks: tuple[TaskId, ...]
    deadline: float
    requests: tuple[str, ...] = ()
    keep: str | None = None
    acks: dict[TaskId, TaskManifest] = field(default_factory=dict)
    name: BlobName | None = None
    expedited: bool = False


@dataclass(slots=True)
class CheckpointCoordinator:
    """``last`` is the newest number used in this term: an aborted one is not used again in it.

    ``pause_until``: nothing periodic before then. ``again``: one was asked for while one was in
    flight. ``hasty``: a member waits for the epoch in flight, or the next one. ``answering``:
    requests that the committed epoch answers once it is published; ``refused``: answers of
    aborted ones.
    """

    in_flight: InFlightCheckpoint | None = None
    last: Epoch = Epoch(0)
    next_at: float = 0.0
    started_at: float = 0.0
    pause_until: float = 0.0
    again: bool = False
    hasty: bool = False
    answering: tuple[str, ...] = ()
    refused: tuple[Answer, ...] = ()

    # --- Begin and end -------------------------------------------------------------------------

    def begin(self, state: LeaderState) -> None:
        """Start the interval when the attempt runs. The first epoch comes early."""
        self.next_at = state.context.now + state.settings.checkpoint_first_delay_s

    def drop(self) -> None:
        """Forget the epoch in flight: the attempt ends, and Reset clears the members."""
        self.in_flight = None
        self.again = self.hasty = False
        self.answering = ()

    def request(self, state: LeaderState) -> None:
        """Start a periodic epoch at once, or after the one in flight. Neither writes at a pace."""
        self.hasty = True
        self.again = self.in_flight is not None
        self.next_at = min(self.next_at, max(state.context.now, self.pause_until))

    def start(self, state: LeaderState, in_flight: InFlightCheckpoint) -> None:
        """Begin a checkpoint. The next :meth:`reconcile` sends its barrier to the members."""
        assert self.in_flight is None, "one epoch is in flight at a time"
        self.in_flight = in_flight
        self.last = in_flight.epoch
        self.started_at = state.context.now
        state.context.log(f"event=epoch epoch={in_flight.epoch} kind={in_flight.kind.name.lower()}")

    def expedite(self, state: LeaderState) -> None:
        """Tell the members that somebody waits for a periodic epoch, so they write it at full speed.

        Epochs of other kinds are always written at full speed.
        """
        in_flight = self.in_flight
        if in_flight is None or in_flight.expedited or in_flight.kind is not BarrierKind.CHECKPOINT:
            return
        in_flight.expedited = True
        for member in state.admitted():
            state.send_once(member, Expedite(state.latest.attempt, in_flight.epoch))

    def number(self, state: LeaderState) -> Epoch:
        """Return the next epoch's number. It is above all epochs that were ever committed."""
        return Epoch(max(state.latest.max_epoch, self.last) + 1)

    def abort(self, state: LeaderState, reason: str) -> None:
        """Abort the checkpoint in flight, and nothing else."""
        in_flight = self.in_flight
        if in_flight is None:
            return
        if state.cas.busy:  # the swap may be the commit: only its outcome decides about the epoch
            return
        self.in_flight = None
        self.again = False  # the next epoch serves the request
        self._pause(state, state.settings.resend_interval_s)
        state.context.log(f"event=epoch-aborted epoch={in_flight.epoch} reason={reason!r}")
        for member in state.admitted():
            state.send_once(member, Abort(state.latest.attempt, in_flight.epoch))
        asked = in_flight.requests if in_flight.keep is None else (*in_flight.requests, in_flight.keep)
        text = f"epoch {in_flight.epoch} was aborted: {reason}"
        self.refused += tuple(Answer(r, False, text) for r in asked)

    def put_off(self, state: LeaderState, seconds: float) -> None:
        """Start no periodic epoch for so long."""
        self.next_at = max(self.next_at, state.context.now + seconds)

    def _pause(self, state: LeaderState, at_least_s: float) -> None:
        """Keep the configured pause between the end of an epoch and the next one."""
        pause_s = max(state.settings.checkpoint_min_pause_s, at_least_s)
        self.pause_until = self.next_at = state.context.now + pause_s

    # --- Reports -------------------------------------------------------------------------------

    def on_ack(self, state: LeaderState, ack: TaskAck) -> None:
        """Count an acknowledgement of exactly this attempt, term and epoch."""
        if ack.attempt != state.latest.attempt or ack.term != state.term:
            return
        in_flight = self.in_flight
        if in_flight is not None and in_flight.epoch == ack.epoch and ack.manifest.task in in_flight.tasks:
            in_flight.acks.setdefault(ack.manifest.task, ack.manifest)

    def on_epoch_failed(self, state: LeaderState, failed: EpochFailed) -> None:
        """Abort the epoch that a task cannot take."""
        if failed.attempt != state.latest.attempt or failed.term != state.term:
            return
        if self.in_flight is not None and self.in_flight.epoch == failed.epoch:
            self.abort(state, f"task {failed.task}: {failed.reason}")

    def on_publish_failed(self, state: LeaderState, failed: PublishFailed) -> None:
        """Log that output cannot be made visible. If a retry cannot help, the job fails."""
        if failed.attempt != state.latest.attempt or failed.epoch != state.latest.epoch:
            return
        state.log_once("publish-failed", f"epoch={failed.epoch} reason={failed.reason!r}")
        if failed.fatal:
            state.failure = f"output of epoch {failed.epoch} cannot be published: {failed.reason}"

    # --- Reconcile --------------------------------------------------------------------------------

    def notice(self, state: LeaderState, manifests: ManifestCache) -> None:
        """Take in a commit as soon as its swap is decided, before any other decision.

        A rollback that follows goes back to this epoch and to its manifest.
        """
        if self.in_flight is not None and state.latest.epoch == self.in_flight.epoch:
            self._committed(state, manifests, self.in_flight)

    def reconcile(self, state: LeaderState, manifests: ManifestCache) -> None:
        """Bring the checkpoint in flight one step nearer to its commit."""
        in_flight = self.in_flight
        if in_flight is None:
            return
        if state.context.due_or_wake(in_flight.deadline):
            self.abort(state, "not complete in time")
        elif state.cas.busy:
            return
        elif in_flight.name is None:
            self._collect_acks(state, manifests, in_flight)
        elif in_flight.name in manifests.failed:
            self.abort(state, f"its manifest was not written: {manifests.failed[in_flight.name]}")
        elif in_flight.name in manifests.written:
            self._commit(state, manifests, in_flight, manifests.written[in_flight.name])

    def _collect_acks(self, state: LeaderState, manifests: ManifestCache, in_flight: InFlightCheckpoint) -> None:
        at = state.latest
        for member in state.admitted():
            heartbeat = state.life(member).heartbeat
            if heartbeat is None or not state.confirmed(member) or heartbeat.injected < in_flight.epoch:
                version = in_flight.assignment.version
                inject = Inject(at.attempt, in_flight.epoch, version, in_flight.kind, at.epoch)
                state.ensure(member, inject, in_flight.epoch)
        if len(in_flight.acks) < len(in_flight.tasks):
            return
        state.differing = differing_copies(in_flight.acks)
        if state.differing is not None:
            self.abort(state, state.differing)
            return
        if in_flight.kind is BarrierKind.FINAL and not self._all_read(state, in_flight):
            self.abort(state, "a source has more to read")
            return
        in_flight.name = state.context.file_name(state.term, in_flight.epoch, ROOT_SUFFIX)
        manifests.write(state.context, in_flight.name, _root(state, in_flight))

    def _all_read(self, state: LeaderState, in_flight: InFlightCheckpoint) -> bool:
        sources = state.stage_sources()
        return all(a.exhausted for t, a in in_flight.acks.items() if t.stage in sources)

    def _commit(
        self, state: LeaderState, manifests: ManifestCache, in_flight: InFlightCheckpoint, root: BlobRef
    ) -> None:
        """Commit the epoch. The same swap commits the version when the epoch is a rescale's."""
        at = state.latest
        table = in_flight.assignment
        assert in_flight.epoch > at.max_epoch
        moves_on = _moves_on(state, manifests, in_flight)
        state.propose(
            replace(
                at,
                epoch=in_flight.epoch,
                max_epoch=in_flight.epoch,
                root=root,
                version=table.version,
                workers=table.workers,
                schemes=table.schemes,
                balance=state.balance_with(table),
                settled=at.settled if table.version != at.version else at.version,
                published_through=state.published_through(),
                retained=retain(at.retained, Retained(in_flight.epoch, root, in_flight.keep), state),
                stalled=None if moves_on else at.stalled,
            )
        )

    def _committed(self, state: LeaderState, manifests: ManifestCache, in_flight: InFlightCheckpoint) -> None:
        if _moves_on(state, manifests, in_flight):
            state.failures = 0
        state.root = _manifest(manifests, in_flight)
        self.in_flight = None
        self.answering = in_flight.requests
        interval_end = self.started_at + state.settings.checkpoint_interval_s
        took_s = state.context.now - self.started_at
        self._pause(state, 0.0)
        if not self.again:  # epochs that last longer than the interval take half of the time
            self.next_at = max(interval_end, self.next_at, state.context.now + took_s)
        self.hasty = self.again  # a request during this epoch waits for the next one
        self.again = False
        state.context.log(f"event=committed epoch={in_flight.epoch} version={state.latest.version}")

    # --- What members do not know yet ------------------------------------------------------------

    def decide_for(self, state: LeaderState) -> None:
        """Repeat the outcome of epochs to members that have not taken it in."""
        at = state.latest
        in_flight = self.in_flight.epoch if self.in_flight is not None else Epoch(0)
        if not state.published() and not state.cas.busy:
            state.publish_whole()
        for member in state.admitted():
            heartbeat = state.life(member).heartbeat
            if heartbeat is None or not state.confirmed(member):
                continue
            if heartbeat.status.attempt != at.attempt:
                continue
            open_epoch = heartbeat.undecided
            if heartbeat.status.published < at.epoch and not state.cas.busy:
                state.ensure(member, Commit(at.attempt, at.epoch, at.version), at.epoch)
            if open_epoch > at.epoch and open_epoch != in_flight:
                state.ensure(member, Abort(at.attempt, open_epoch), open_epoch)

    def answer(self, state: LeaderState) -> bool:
        """Record the answers that this part owes by a swap; True when it began one."""
        epoch = state.latest.epoch
        done = tuple(Answer(r, True, f"epoch {epoch} is committed and published", epoch) for r in self.answering)
        if state.cas.busy or not (done or self.refused):
            return False
        through = state.published_through() if state.published() else state.latest.published_through
        new = (*done, *self.refused)
        self.answering, self.refused = (), ()
        state.propose(replace(state.latest, published_through=through, answers=state.answers(*new)))
        return True


def _manifest(manifests: ManifestCache, in_flight: InFlightCheckpoint) -> RootManifest:
    root = manifests.contents[in_flight.name] if in_flight.name is not None else None
    assert isinstance(root, RootManifest)
    return root


def _moves_on(state: LeaderState, manifests: ManifestCache, in_flight: InFlightCheckpoint) -> bool:
    """Return whether this epoch ends the back-off of the failed attempts before this one.

    It does if it has rows that the epoch before it has not, if it is more than periodic, or if the attempt has run
    for as long as the longest wait. An attempt that fails at its first row commits empty epochs until then.
    """
    if in_flight.kind is not BarrierKind.CHECKPOINT:
        return True
    before = () if state.root is None else state.root.rows
    runs_on = state.phase is LeaderPhase.RUNNING and state.context.now >= state.since + state.settings.backoff_max_s
    return runs_on or _manifest(manifests, in_flight).rows != before


def differing_copies(acks: Mapping[TaskId, TaskManifest]) -> str | None:
    """Name two tasks of which one has other rows of a side table than the other; None if all are equal."""
    first: dict[tuple[StageIndex, str], tuple[TaskId, CopyDigest]] = {}
    for task in sorted(acks, key=lambda each: (each.stage, each.worker, each.slot)):
        copies = acks[task].copies
        for copy in () if copies is ABSENT else copies:
            known, expected = first.setdefault((task.stage, copy.state), (task, copy))
            if copy != expected:
                return (
                    f"the copies of side table {copy.state!r} differ: {known} has {expected.rows} rows with digest "
                    f"{expected.digest:x}, {task} {copy.rows} with {copy.digest:x}"
                )
    return None


def retain(kept: tuple[Retained, ...], new: Retained, state: LeaderState) -> tuple[Retained, ...]:
    """Return the retained epochs with ``new``: the newest, and those that are being copied."""
    every = (*kept, new)
    newest = every[-state.settings.retain :]
    return tuple(r for r in every if r.savepoint is not None or r in newest)


def _root(state: LeaderState, in_flight: InFlightCheckpoint) -> RootManifest:
    assert state.plan is not None
    before = state.root if state.latest.root is not None else None
    return RootManifest(
        job_uid=state.latest.job_uid,
        epoch=in_flight.epoch,
        term=state.term,
        attempt=state.latest.attempt,
        kind=in_flight.kind.name.lower(),
        max_key_groups=state.plan.max_key_groups,
        fingerprint=state.plan.fingerprint,
        assignment=in_flight.assignment,
        tasks=tuple(in_flight.acks[task] for task in in_flight.tasks),
        rows=total_rows(before, state.plan, [in_flight.acks[task] for task in in_flight.tasks]),
        states=state.plan.states,
        steps=state.plan.steps,
    )


def total_rows(before: RootManifest | None, plan: PhysicalPlan, tasks: Sequence[TaskManifest]) -> tuple[StepRows, ...]:
    """Count the rows of every source, then of every sink, in the order of the plan.

    ``before`` is the checkpoint before this one, and ``tasks`` are the manifests of this one. A
    handle that ``before`` lists is not counted again.
    """
    sources = {s.index: s.source for s in plan.stages if s.source is not None}
    read = dict.fromkeys(sources.values(), 0)
    written = {sink: 0 for stage in plan.stages for sink in stage.sinks}
    counted = set()
    if before is not None:
        written.update((r.step, r.rows) for r in before.rows if r.step in written)
        counted = {handle for task in before.tasks for handle in task.handles}
    for task in tasks:
        if task.task.stage in sources:
            read[sources[task.task.stage]] += sum(split.offset for split in task.splits)
        for handle in task.handles:
            if handle not in counted and handle.sink in written:
                written[handle.sink] += handle.rows
    return tuple(StepRows(step, rows) for step, rows in (*read.items(), *written.items()))
