"""Which keeper tries to lead: one keeper reads and writes the Lease.

::

    WATCHING  ──> HOLDING
    HOLDING   ──> WATCHING, RELEASING
    RELEASING ──> WATCHING

A keeper takes a Lease that is free, or that has expired by the keeper's own clock. A keeper that
has lost the Lease stays out of the election for one lease duration.

The Lease is no fence: it only says which keeper tries. The swap of the term says which keeper
leads, and the term fences every effect. Expiry is judged by the reader's own clock, from the last
change of the Lease. Two clocks are never compared.
"""

from dataclasses import dataclass
from enum import StrEnum

from penstock.protocol.core_context import ControlSettings, StepContext, checked
from penstock.protocol.keeper_core_messages import LeaseFailed, LeaseRead, LeaseWritten, ReadLease, WriteLease

LeaseEvent = LeaseRead | LeaseWritten | LeaseFailed


class ElectionPhase(StrEnum):
    """What the Lease is to this keeper."""

    WATCHING = "watching"
    HOLDING = "holding"
    RELEASING = "releasing"


TRANSITIONS: dict[ElectionPhase, tuple[ElectionPhase, ...]] = {
    ElectionPhase.WATCHING: (ElectionPhase.HOLDING,),  # our write of our own name succeeded
    ElectionPhase.HOLDING: (
        ElectionPhase.WATCHING,  # not renewed in time, or another keeper holds the Lease
        ElectionPhase.RELEASING,  # the keeper stops leading
    ),
    ElectionPhase.RELEASING: (ElectionPhase.WATCHING,),  # no holder is written, or another one
}


@dataclass(slots=True)
class Election:
    """The Lease as this keeper knows it. At most one read or write of it is under way.

    - ``renewed_at``: when the last successful write was *sent*.
    - ``fresh``: the Lease was read, and this keeper has not acted on it yet.
    - ``holder``, ``text``: the content as it was last read, unchanged since ``seen_at``.
    - ``seizing``: a holder whose keeper is known to be dead. Its Lease is taken before it expires.
    """

    settings: ControlSettings
    name: str  # of this keeper, as it is written into the Lease
    phase: ElectionPhase = ElectionPhase.WATCHING
    cool_until: float = 0.0
    renewed_at: float = 0.0
    version: str = ""
    fresh: bool = False
    holder: str | None = None
    text: str | None = None
    seen_at: float = 0.0
    waiting: int | None = None
    sent_at: float = 0.0
    writing: str | None = None
    seizing: str | None = None
    next_at: float = 0.0

    @property
    def held(self) -> bool:
        """Return whether this keeper holds the Lease, and may lead."""
        return self.phase is ElectionPhase.HOLDING

    def _enter(self, phase: ElectionPhase) -> None:
        if phase is not self.phase:
            self.phase = checked(TRANSITIONS, self.phase, phase)

    def on_event(self, context: StepContext, event: LeaseEvent) -> None:
        """Take the answer to the read or write under way; other answers are dropped."""
        if event.token != self.waiting:
            return
        self.waiting = None
        match event:
            case LeaseRead():
                self._read(context, event)
            case LeaseWritten(_, version):
                self._written(context, version)
            case LeaseFailed():
                self.version = ""  # the Lease may have changed: the next pass reads it first
                self.next_at = context.now + self.settings.lease_retry_s

    def _read(self, context: StepContext, lease: LeaseRead) -> None:
        if self.text is None or (self.holder, self.text) != (lease.holder, lease.renewed):
            self.seen_at = context.now
        self.holder, self.text, self.version = lease.holder, lease.renewed, lease.version
        self.fresh = True
        if self.held and lease.holder != self.name:
            self._enter(ElectionPhase.WATCHING)
        self.next_at = context.now

    def _written(self, context: StepContext, version: str) -> None:
        self.version = version
        self.holder, self.text, self.seen_at = self.writing, None, context.now
        self.renewed_at = self.sent_at
        self.seizing = None
        # A renewal that was under way when this keeper gave up has to be undone.
        self.fresh = self.phase is ElectionPhase.RELEASING and self.writing is not None
        if self.writing is None:
            self._enter(ElectionPhase.WATCHING)
        elif not self.fresh:
            self._enter(ElectionPhase.HOLDING)
        self.next_at = context.now if self.fresh else context.now + self.settings.lease_retry_s

    def reconcile(self, context: StepContext, patience_s: float | None) -> None:
        """Renew the Lease if this keeper holds it, else take it when it is free.

        ``patience_s``: how long a free Lease is left to others. None: this keeper does not contend.
        """
        if self.held and context.due_or_wake(self.renewed_at + self.settings.lease_renew_deadline_s):
            self._enter(ElectionPhase.WATCHING)  # another keeper may take it soon
        if self.waiting is not None or not context.due_or_wake(self.next_at):
            return
        if self.held and self.version:
            self._write(context, self.name)
        elif self.fresh:
            self.fresh = False
            self._act(context, patience_s)
        else:
            self._ask(context)

    def _act(self, context: StepContext, patience_s: float | None) -> None:
        cooling = context.now < self.cool_until
        if self.holder == self.name:  # for example by a write whose reply was lost
            releases = cooling or self.phase is ElectionPhase.RELEASING
            self._write(context, None if releases else self.name)
        elif patience_s is not None and not cooling and context.now >= self._free_at(patience_s):
            self._write(context, self.name)
        else:
            if self.phase is ElectionPhase.RELEASING:  # another keeper has taken the Lease
                self._enter(ElectionPhase.WATCHING)
            self._look_again(context, patience_s or 0.0)

    def acquire_expired(self, context: StepContext, holder: str) -> None:
        """Take the Lease from a dead holder, and from no other, as soon as it is read once more."""
        self.seizing = holder
        self.next_at = context.now

    def _free_at(self, patience_s: float) -> float:
        if self.seizing is not None and self.holder == self.seizing:
            return self.seen_at
        duration = 0.0 if self.holder is None else self.settings.lease_duration_s
        return self.seen_at + duration + patience_s

    def _look_again(self, context: StepContext, patience_s: float) -> None:
        """Read again after the usual interval, or when the Lease expires if that is sooner."""
        self.next_at = context.now + self.settings.lease_retry_s
        if context.now < self._free_at(patience_s) < self.next_at:
            self.next_at = self._free_at(patience_s)
        context.due_or_wake(self.next_at)

    def _ask(self, context: StepContext) -> None:
        self.waiting = context.number()
        context.do(ReadLease(self.waiting))

    def _write(self, context: StepContext, holder: str | None) -> None:
        self.waiting = context.number()
        self.writing = holder
        self.sent_at = context.now
        context.do(WriteLease(self.waiting, holder, self.version))

    def give_up(self, context: StepContext) -> None:
        """Stop leading: free the Lease if this keeper holds it, and stay out for one duration."""
        self.seizing = None
        self.fresh = self.held and bool(self.version)
        self._enter(ElectionPhase.RELEASING if self.held else ElectionPhase.WATCHING)
        self.cool_until = context.now + self.settings.lease_duration_s
        self.next_at = context.now
