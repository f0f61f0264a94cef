"""Who tries to lead: the Lease, seen and written by one keeper.

::

    WATCHING ──free or expired by our own clock, written──> HOLDING
       ▲                                                       │ not renewed in time, taken by
       │ cooled down for one lease duration                    │ another, or deposed
       └───────────────────────────────────────────────────────┘

The Lease is not a fence: it only says who tries. Who leads is said by the swap of the term, and
every effect is fenced by that. Expiry is judged by the reader's own clock since the Lease last
changed; no two clocks are ever compared.
"""

from dataclasses import dataclass

from penstock.protocol.control_actions import ReadLease, WriteLease
from penstock.protocol.control_events import LeaseFailed, LeaseRead, LeaseWritten
from penstock.protocol.settings import ControlSettings
from penstock.protocol.step_context import StepContext

LeaseEvent = LeaseRead | LeaseWritten | LeaseFailed


@dataclass(slots=True)
class Election:
    """The Lease as this keeper knows it; at most one read or write of it is under way.

    ``renewed_at`` is when the last successful write was *sent*. ``fresh``: the Lease was read and
    not yet acted upon. ``holder``, ``text``: what was read last, unchanged since ``seen_at``.
    ``seizing``: the holder whose keeper is known to be dead; its Lease is taken unexpired.
    """

    settings: ControlSettings
    name: str  # what this life writes as the holder
    held: bool = False
    giving_up: bool = False
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

    def on_event(self, context: StepContext, event: LeaseEvent) -> None:
        """Take the answer to the one read or write under way; others are dropped."""
        if event.token != self.waiting:
            return
        self.waiting = None
        match event:
            case LeaseRead():
                self._read(context, event)
            case LeaseWritten(_, version):
                self._written(context, version)
            case LeaseFailed():
                self.version = ""  # perhaps changed: the next turn reads first
                self.next_at = context.now + self.settings.lease_retry_s

    def _read(self, context: StepContext, lease: LeaseRead) -> None:
        if self.text is None or (self.holder, self.text) != (lease.holder, lease.renewed):
            self.seen_at = context.now
        self.holder, self.text, self.version = lease.holder, lease.renewed, lease.version
        self.fresh = True
        self.held = self.held and lease.holder == self.name
        self.next_at = context.now

    def _written(self, context: StepContext, version: str) -> None:
        self.version = version
        self.holder, self.text, self.seen_at = self.writing, None, context.now
        self.held = self.writing is not None and not self.giving_up
        self.renewed_at = self.sent_at
        self.seizing = None
        self.fresh = self.giving_up and self.writing is not None
        self.giving_up = self.fresh
        self.next_at = context.now if self.fresh else context.now + self.settings.lease_retry_s

    def reconcile(self, context: StepContext, patience_s: float | None) -> None:
        """Renew what is held; otherwise take what nobody holds, ``patience_s`` after that is seen.

        ``patience_s`` None: do not contend at all.
        """
        if self.held and context.due_or_wake(
            self.renewed_at + self.settings.lease_renew_deadline_s
        ):
            self.held = False  # another may hold it soon: act no longer
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
        if self.holder == self.name:  # perhaps by a write whose reply was lost
            self._write(context, None if self.giving_up or cooling else self.name)
        elif patience_s is not None and not cooling and context.now >= self._free_at(patience_s):
            self._write(context, self.name)
        else:
            self.giving_up = False
            self._look_again(context, patience_s or 0.0)

    def acquire_expired(self, context: StepContext, holder: str) -> None:
        """Take the Lease from a dead holder as soon as it is read once more, and only from it."""
        self.seizing = holder
        self.next_at = context.now

    def _free_at(self, patience_s: float) -> float:
        if self.seizing is not None and self.holder == self.seizing:
            return self.seen_at
        duration = 0.0 if self.holder is None else self.settings.lease_duration_s
        return self.seen_at + duration + patience_s

    def _look_again(self, context: StepContext, patience_s: float) -> None:
        """Read after the usual time, or just when the Lease will have expired."""
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
        """Stop leading: free the Lease if it is ours, and stay out for one lease duration."""
        self.giving_up = self.held
        self.seizing = None
        self.fresh = self.held and bool(self.version)
        self.held = False
        self.cool_until = context.now + self.settings.lease_duration_s
        self.next_at = context.now
