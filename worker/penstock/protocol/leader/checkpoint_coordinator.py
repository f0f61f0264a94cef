"""Epochs: one in flight, committed by one swap, published before the next one starts.

::

    idle ──due, asked for, and the last one is published──> BARRIER (Inject until seen)
      ▲                                                        │ all tasks acknowledged
      │ failed or timed out before the swap: Abort             ▼
      ├──────────────────────────────────────────────────── ROOT (manifest written)
      │                                                        │ one swap
      │        published by all members                        ▼
      └──────────────────────────────────────────────────── COMMITTED (Commit until published)

From the moment the swap is sent the epoch's fate is the swap's: nothing aborts it any more.
"""

from dataclasses import dataclass, field, replace

from penstock.contract.assignment import Assignment
from penstock.contract.control import (
    Abort,
    Commit,
    EpochFailed,
    Hurry,
    Inject,
    PublishFailed,
    TaskAck,
)
from penstock.contract.ids import BlobName, Epoch, TaskId
from penstock.contract.latest import Answer, Retained
from penstock.contract.manifest import BlobRef, RootManifest, TaskManifest
from penstock.contract.names import ROOT_SUFFIX
from penstock.model.elements import BarrierKind
from penstock.protocol.leader.leader_state import Lead
from penstock.protocol.leader.manifest_cache import Shelf
from penstock.protocol.leader.row_totals import total_rows


@dataclass(slots=True)
class Flight:
    """The epoch in flight. ``assignment`` holds behind its barrier; ``tasks`` must acknowledge.

    ``requests`` are answered once it is published; ``keep`` is the savepoint request it is for.
    ``hurried``: the members were told that somebody waits for it.
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
    hurried: bool = False


@dataclass(slots=True)
class Epochs:
    """``last`` is the newest number used in this term: an aborted one is not used again in it.

    ``pause_until``: nothing periodic before then. ``again``: one was asked for while one was in
    flight. ``hasty``: a member waits for the epoch in flight, or the next one. ``answering``:
    requests that the committed epoch answers once it is published; ``refused``: answers of
    aborted ones.
    """

    flight: Flight | None = None
    last: Epoch = Epoch(0)
    next_at: float = 0.0
    started_at: float = 0.0
    pause_until: float = 0.0
    again: bool = False
    hasty: bool = False
    answering: tuple[str, ...] = ()
    refused: tuple[Answer, ...] = ()

    # --- Begin and end -------------------------------------------------------------------------

    def begin(self, lead: Lead) -> None:
        """Start counting after the attempt runs: the first epoch comes early."""
        self.next_at = lead.desk.now + lead.settings.checkpoint_first_delay_s

    def drop(self) -> None:
        """Forget the epoch in flight: the attempt ends, and a Reset says so to the members."""
        self.flight = None
        self.again = self.hasty = False
        self.answering = ()

    def soon(self, lead: Lead) -> None:
        """Take the next periodic epoch at once, or after the one in flight; both without a rest."""
        self.hasty = True
        self.again = self.flight is not None
        self.next_at = min(self.next_at, max(lead.desk.now, self.pause_until))

    def start(self, lead: Lead, flight: Flight) -> None:
        """Begin ``flight``; its members hear of it with the next :meth:`pursue`."""
        assert self.flight is None, "one epoch is in flight at a time"
        self.flight = flight
        self.last = flight.epoch
        self.started_at = lead.desk.now
        lead.desk.note(f"event=epoch epoch={flight.epoch} kind={flight.kind.name.lower()}")

    def hurry(self, lead: Lead) -> None:
        """Have a periodic epoch written without a rest, for somebody waits; others never rest."""
        flight = self.flight
        if flight is None or flight.hurried or flight.kind is not BarrierKind.CHECKPOINT:
            return
        flight.hurried = True
        for member in lead.admitted():
            lead.tell(member, Hurry(lead.latest.attempt, flight.epoch))

    def number(self, lead: Lead) -> Epoch:
        """Return the next epoch's number: above all committed ones, restored from or not."""
        return Epoch(max(lead.latest.max_epoch, self.last) + 1)

    def abort(self, lead: Lead, reason: str) -> None:
        """Give up the epoch in flight, and nothing else."""
        flight = self.flight
        if flight is None:
            return
        if lead.swaps.busy:  # the swap may be the commit: once sent, the epoch's fate is its
            return
        self.flight = None
        self.again = False  # the next one is what was asked for
        self._pause(lead, lead.settings.resend_interval_s)
        lead.desk.note(f"event=epoch-aborted epoch={flight.epoch} reason={reason!r}")
        for member in lead.admitted():
            lead.tell(member, Abort(lead.latest.attempt, flight.epoch))
        asked = flight.requests if flight.keep is None else (*flight.requests, flight.keep)
        text = f"epoch {flight.epoch} was aborted: {reason}"
        self.refused += tuple(Answer(r, False, text) for r in asked)

    def _pause(self, lead: Lead, at_least_s: float) -> None:
        """Keep the configured pause between the end of an epoch and the next one."""
        pause_s = max(lead.settings.checkpoint_min_pause_s, at_least_s)
        self.pause_until = self.next_at = lead.desk.now + pause_s

    # --- Reports -------------------------------------------------------------------------------

    def hear_ack(self, lead: Lead, ack: TaskAck) -> None:
        """Count an acknowledgement of exactly this attempt, term and epoch."""
        if ack.attempt != lead.latest.attempt or ack.term != lead.term:
            return
        flight = self.flight
        if flight is not None and flight.epoch == ack.epoch and ack.manifest.task in flight.tasks:
            flight.acks.setdefault(ack.manifest.task, ack.manifest)

    def hear_failure(self, lead: Lead, failed: EpochFailed) -> None:
        """Abort the epoch that a task cannot take."""
        if failed.attempt != lead.latest.attempt or failed.term != lead.term:
            return
        if self.flight is not None and self.flight.epoch == failed.epoch:
            self.abort(lead, f"task {failed.task}: {failed.reason}")

    def hear_unpublished(self, lead: Lead, failed: PublishFailed) -> None:
        """Say that output cannot be made visible; when it never can, the job fails."""
        if failed.attempt != lead.latest.attempt or failed.epoch != lead.latest.epoch:
            return
        lead.say("publish-failed", f"epoch={failed.epoch} reason={failed.reason!r}")
        if failed.fatal:
            lead.failure = f"output of epoch {failed.epoch} cannot be published: {failed.reason}"

    # --- Pursue --------------------------------------------------------------------------------

    def notice(self, lead: Lead, shelf: Shelf) -> None:
        """Take a commit to heart as soon as its swap is decided, before anything else is judged.

        Whoever gives the attempt up next goes back to this epoch, and to its manifest.
        """
        if self.flight is not None and lead.latest.epoch == self.flight.epoch:
            self._committed(lead, shelf, self.flight)

    def pursue(self, lead: Lead, shelf: Shelf) -> None:
        """Bring the epoch in flight a step nearer to its commit."""
        flight = self.flight
        if flight is None:
            return
        if lead.desk.due(flight.deadline):
            self.abort(lead, "not complete in time")
        elif lead.swaps.busy:
            return
        elif flight.name is None:
            self._collect_acks(lead, shelf, flight)
        elif flight.name in shelf.failed:
            self.abort(lead, f"its manifest was not written: {shelf.failed[flight.name]}")
        elif flight.name in shelf.written:
            self._commit(lead, flight, shelf.written[flight.name])

    def _collect_acks(self, lead: Lead, shelf: Shelf, flight: Flight) -> None:
        at = lead.latest
        for member in lead.admitted():
            heartbeat = lead.life(member).heartbeat
            if heartbeat is None or not lead.heard(member) or heartbeat.injected < flight.epoch:
                version = flight.assignment.version
                inject = Inject(at.attempt, flight.epoch, version, flight.kind, at.epoch)
                lead.want(member, inject, flight.epoch)
        if len(flight.acks) < len(flight.tasks):
            return
        if flight.kind is BarrierKind.FINAL and not self._all_read(lead, flight):
            self.abort(lead, "a source has more to read")
            return
        flight.name = lead.desk.file_name(lead.term, flight.epoch, ROOT_SUFFIX)
        shelf.write(lead.desk, flight.name, _root(lead, flight))

    def _all_read(self, lead: Lead, flight: Flight) -> bool:
        sources = lead.stage_sources()
        return all(a.exhausted for t, a in flight.acks.items() if t.stage in sources)

    def _commit(self, lead: Lead, flight: Flight, root: BlobRef) -> None:
        """Commit epoch and, when it is a rescale's, version: both in this one swap."""
        at = lead.latest
        table = flight.assignment
        assert flight.epoch > at.max_epoch
        lead.propose(
            replace(
                at,
                epoch=flight.epoch,
                max_epoch=flight.epoch,
                root=root,
                version=table.version,
                workers=table.workers,
                settled=at.settled if table.version != at.version else at.version,
                published_through=lead.published_through(),
                retained=retain(at.retained, Retained(flight.epoch, root, flight.keep), lead),
                stalled=None,
            )
        )

    def _committed(self, lead: Lead, shelf: Shelf, flight: Flight) -> None:
        root = shelf.contents[flight.name] if flight.name is not None else None
        assert isinstance(root, RootManifest)
        lead.root = root
        lead.failures = 0
        self.flight = None
        self.answering = flight.requests
        interval_end = self.started_at + lead.settings.checkpoint_interval_s
        took_s = lead.desk.now - self.started_at
        self._pause(lead, 0.0)
        if not self.again:  # one that outlasts the interval takes half of the time, not all of it
            self.next_at = max(interval_end, self.next_at, lead.desk.now + took_s)
        self.hasty = self.again  # who asked while this one was in flight waits for the next one
        self.again = False
        lead.desk.note(f"event=committed epoch={flight.epoch} version={lead.latest.version}")

    # --- What members do not know yet ------------------------------------------------------------

    def decide_for(self, lead: Lead) -> None:
        """Repeat what became of epochs that a member still holds open."""
        at = lead.latest
        in_flight = self.flight.epoch if self.flight is not None else Epoch(0)
        for member in lead.admitted():
            heartbeat = lead.life(member).heartbeat
            if heartbeat is None or not lead.heard(member):
                continue
            if heartbeat.status.attempt != at.attempt:
                continue
            open_epoch = heartbeat.undecided
            if heartbeat.status.published < at.epoch and not lead.swaps.busy:
                lead.want(member, Commit(at.attempt, at.epoch, at.version), at.epoch)
            if open_epoch > at.epoch and open_epoch != in_flight:
                lead.want(member, Abort(at.attempt, open_epoch), open_epoch)

    def answer(self, lead: Lead) -> bool:
        """Swap in the answers that this part owes; True when it did."""
        done = tuple(
            Answer(r, True, f"epoch {lead.latest.epoch} is committed and published")
            for r in self.answering
        )
        if lead.swaps.busy or not (done or self.refused):
            return False
        through = lead.published_through() if lead.published() else lead.latest.published_through
        new = (*done, *self.refused)
        self.answering, self.refused = (), ()
        lead.propose(replace(lead.latest, published_through=through, answers=lead.answers(*new)))
        return True


def retain(kept: tuple[Retained, ...], new: Retained, lead: Lead) -> tuple[Retained, ...]:
    """Return what stays after ``new``: the newest ones, and those a savepoint is copied from."""
    every = (*kept, new)
    newest = every[-lead.settings.retain :]
    return tuple(r for r in every if r.savepoint is not None or r in newest)


def _root(lead: Lead, flight: Flight) -> RootManifest:
    assert lead.plan is not None
    before = lead.root if lead.latest.root is not None else None
    return RootManifest(
        job_uid=lead.latest.job_uid,
        epoch=flight.epoch,
        term=lead.term,
        attempt=lead.latest.attempt,
        kind=flight.kind.name.lower(),
        max_key_groups=lead.plan.max_key_groups,
        fingerprint=lead.plan.fingerprint,
        assignment=flight.assignment,
        tasks=tuple(flight.acks[task] for task in flight.tasks),
        rows=total_rows(before, lead.plan, [flight.acks[task] for task in flight.tasks]),
        states=lead.plan.states,
        steps=lead.plan.steps,
    )
