"""One partition of pushed input: which sender may send, what is taken, when a sender may go. Pure.

    closed --Opened--> open --Closed--> closed          every change dismisses the current stream
    stream: Greeted --> current --RowsCame*--> --EndCame--> waiting --committed to the end--> done

Offsets are contiguous. Rows that were taken before are dropped, and a gap sends the sender back.
There is one stream at a time. Of two senders the one with the higher number wins, and the other is
told not to come back. A sender may go only when the *committed* state has the end of the partition.
An end that is known but not committed would be lost by a crash, and no sender would send it again.
"""

from dataclasses import dataclass

from penstock.base.errors import PeerError
from penstock.model.ingest_messages import IngestAnswer


@dataclass(frozen=True, slots=True)
class Opened:
    """This worker owns the partition from ``offset`` on."""

    offset: int
    finished: bool


@dataclass(frozen=True, slots=True)
class Closed:
    """This worker does not own the partition any more: it was reset, or the partition moved."""


@dataclass(frozen=True, slots=True)
class Greeted:
    """A sender has opened stream ``stream``."""

    stream: int
    sender: int


@dataclass(frozen=True, slots=True)
class RowsCame:
    """Rows ``offset .. offset + rows - 1`` have come on a stream."""

    stream: int
    offset: int
    rows: int


@dataclass(frozen=True, slots=True)
class EndCame:
    """The sender reports that the partition has exactly ``offset`` rows."""

    stream: int
    offset: int


@dataclass(frozen=True, slots=True)
class CommittedSenders:
    """A checkpoint with this state of the partition is committed."""

    offset: int
    finished: bool


Event = Opened | Closed | Greeted | RowsCame | EndCame | CommittedSenders


@dataclass(frozen=True, slots=True)
class Take:
    """Queue the rows that came, except the first ``skip`` rows."""

    skip: int


@dataclass(frozen=True, slots=True)
class Reply:
    """IngestAnswer on a stream. ``last``: the answer ends the stream."""

    stream: int
    answer: IngestAnswer
    next: int
    committed: int
    last: bool = False


@dataclass(frozen=True, slots=True)
class WantCheckpoint:
    """Ask for a checkpoint soon: a sender waits until its end is committed."""


Action = Take | Reply | WantCheckpoint


class IngestPartition:
    """The decisions about one partition, see the module. Not thread-safe."""

    __slots__ = ("_committed", "_done", "_open", "_sender", "_stream", "end", "next")

    def __init__(self) -> None:
        """Begin closed and without a sender."""
        self._open = False
        self._stream: int | None = None
        self._sender = -1
        self._committed = 0
        self._done = False
        self.next = 0
        self.end: int | None = None

    @property
    def is_open(self) -> bool:
        """Reply whether this worker owns the partition."""
        return self._open

    @property
    def stream(self) -> int | None:
        """Return the stream whose rows are taken."""
        return self._stream

    def step(self, event: Event) -> tuple[Action, ...]:
        """Take one event. Raises PeerError when a sender contradicts its earlier messages."""
        match event:
            case Opened(offset, finished):
                return self._opened(offset, finished)
            case Closed():
                self._open = False
                return self._dismiss(IngestAnswer.RETRY)
            case Greeted(stream, sender):
                return self._greeted(stream, sender)
            case RowsCame(stream, offset, rows):
                return self._rows(stream, offset, rows)
            case EndCame(stream, offset):
                return self._ended(stream, offset)
            case CommittedSenders(offset, finished):
                return self._confirm(offset, finished)

    def _opened(self, offset: int, finished: bool) -> tuple[Action, ...]:
        dismissed = self._dismiss(IngestAnswer.RETRY)
        self._open = True
        self.next = self._committed = offset
        self.end = offset if finished else None
        self._done = finished
        return dismissed

    def _greeted(self, stream: int, sender: int) -> tuple[Action, ...]:
        if not self._open:
            return (self._reply(stream, IngestAnswer.RETRY, last=True),)
        if sender < self._sender:
            return (self._reply(stream, IngestAnswer.SUPERSEDED, last=True),)
        if self._done:
            return (self._reply(stream, IngestAnswer.FINISHED, last=True),)
        # A sender that lost its stream and dials again must not be told to stop for ever.
        loser = IngestAnswer.RETRY if sender == self._sender else IngestAnswer.SUPERSEDED
        dismissed = self._dismiss(loser)
        self._sender = sender
        self._stream = stream
        return (*dismissed, self._reply(stream, IngestAnswer.TAKEN))

    def _rows(self, stream: int, offset: int, rows: int) -> tuple[Action, ...]:
        if stream != self._stream:
            return ()
        if offset > self.next:
            return (self._reply(stream, IngestAnswer.REWIND),)
        skip = self.next - offset
        if skip >= rows:
            return (self._reply(stream, IngestAnswer.TAKEN),)
        if self.end is not None:
            raise PeerError(f"rows beyond {self.end}, where the sender said that it ends")
        self.next = offset + rows
        return (Take(skip), self._reply(stream, IngestAnswer.TAKEN))

    def _ended(self, stream: int, offset: int) -> tuple[Action, ...]:
        if stream != self._stream:
            return ()
        if offset > self.next:
            return (self._reply(stream, IngestAnswer.REWIND),)
        if offset < self.next:
            raise PeerError(f"the sender ends at {offset}, and {self.next} rows were taken")
        self.end = offset
        return (WantCheckpoint(),)

    def _confirm(self, offset: int, finished: bool) -> tuple[Action, ...]:
        if not self._open:
            return ()
        self._committed = offset
        self._done = finished
        return self._dismiss(IngestAnswer.FINISHED) if finished else ()

    def _dismiss(self, answer: IngestAnswer) -> tuple[Action, ...]:
        stream, self._stream = self._stream, None
        return () if stream is None else (self._reply(stream, answer, last=True),)

    def _reply(self, stream: int, answer: IngestAnswer, *, last: bool = False) -> Reply:
        return Reply(stream, answer, self.next, self._committed, last)
