"""The object -latest as its leader knows it, and compare-and-swaps whose outcome may be unknown.

::

      propose ──> SENT ──done──────────────────────────> decided: ``latest`` is the intent
                   │conflict or unknown                      ▲
                   ▼                                         │ the object has one of our swap ids
                 READING ──read──> judge ────────────────────┘
                   ▲   │             │ nothing changed: send again (paced), fresh id ──> SENT
                   └───┘ unreadable  │ anything else
                                     ▼
                                  deposed: another keeper leads; nothing was aborted or deleted

While an intent is undecided, nothing that it commits may be aborted, and nothing that it lets go
may be deleted: the swap may still be applied. There are two ways out. The object shows our swap
id. Or a *later* swap, with a fresh id, has succeeded on the state that the first one was based on.
"""

from dataclasses import dataclass, field

from penstock.base.limits import SWAP_TRIES_MAX
from penstock.base.values import replace
from penstock.contract.ids import SwapId
from penstock.contract.latest import Latest
from penstock.protocol.control_actions import ReadLatest, SwapLatest
from penstock.protocol.control_events import (
    LatestRead,
    LatestUnreadable,
    SwapConflicted,
    SwapDone,
    SwapUnknown,
)
from penstock.protocol.step_context import StepContext

SwapEvent = SwapDone | SwapConflicted | SwapUnknown | LatestRead | LatestUnreadable


@dataclass(slots=True)
class MetadataCas:
    """``latest`` at ``version``: the object as the last decided swap wrote it, or as first read."""

    latest: Latest
    version: str
    retry_s: float
    intent: Latest | None = None
    tried: list[SwapId] = field(default_factory=list)
    reading: int | None = None
    read_at: float | None = None
    send_at: float | None = None
    deposed: str | None = None

    @property
    def busy(self) -> bool:
        """Return whether a swap is undecided."""
        return self.intent is not None

    def propose(self, context: StepContext, intent: Latest) -> None:
        """Begin a swap to ``intent``. The swap id is filled in here."""
        assert self.intent is None, "one swap at a time: the next is based on the last"
        assert self.deposed is None
        self.intent = intent
        self.tried = []
        self._send(context)

    def _send(self, context: StepContext) -> None:
        assert self.intent is not None
        swap_id = context.swap_id()
        self.tried.append(swap_id)
        self.intent = replace(self.intent, swap_id=swap_id)
        context.do(SwapLatest(self.intent, self.version))

    def on_event(self, context: StepContext, event: SwapEvent) -> None:
        """Take the answer to a swap or a read of this object; other answers are dropped."""
        match event:
            case SwapDone(swap_id, version):
                if self.intent is not None and swap_id == self.intent.swap_id:
                    self._decide(self.intent, version)
            case SwapConflicted(swap_id) | SwapUnknown(swap_id):
                if self.intent is not None and swap_id == self.intent.swap_id:
                    self._read(context)
            case LatestRead(token, record, version, _):
                if self.intent is not None and token == self.reading:
                    self.reading = None
                    self._judge(context, record, version)
            case LatestUnreadable(token, _):
                if self.intent is not None and token == self.reading:
                    self.reading = None
                    self.read_at = context.now + self.retry_s

    def reconcile(self, context: StepContext) -> None:
        """Read again after the store was unreachable, and send again after a pause."""
        if self.read_at is not None and context.due_or_wake(self.read_at):
            self._read(context)
        if self.send_at is not None and context.due_or_wake(self.send_at):
            self.send_at = None
            self._send(context)

    def _read(self, context: StepContext) -> None:
        self.read_at = None
        self.reading = context.number()
        context.do(ReadLatest(self.reading))

    def _judge(self, context: StepContext, record: Latest | None, version: str) -> None:
        """Decide by the object as it was read after the outcome became unknown."""
        if record is not None and record.swap_id in self.tried:
            self._decide(record, version)
        elif record == self.latest:
            self.version = version
            self._send_later(context)
        else:
            self.deposed = _why(record, self.latest)

    def _send_later(self, context: StepContext) -> None:
        """Send again: first at once, then at intervals. Too many tries end the leadership."""
        if len(self.tried) >= SWAP_TRIES_MAX:
            self.deposed = f"{len(self.tried)} swaps in a row had no known outcome"
        elif len(self.tried) < 2:
            self._send(context)
        else:
            self.send_at = context.now + self.retry_s
            context.due_or_wake(self.send_at)

    def _decide(self, latest: Latest, version: str) -> None:
        self.latest = latest
        self.version = version
        self.intent = None
        self.tried = []


def _why(record: Latest | None, mine: Latest) -> str:
    if record is None:
        return "the object -latest is gone"
    if record.term > mine.term:
        return f"term {record.term} leads"
    return f"swap {record.swap_id} of term {record.term} is not ours"
