"""The object -latest and the files that it names, as the leader knows them.

Compare-and-swaps (:class:`MetadataCas`), whose outcome may be unknown:

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

Each file that the leader has read or written is kept while it is named (:class:`ManifestCache`).
"""

from dataclasses import dataclass, field

from penstock.base.limits import SWAP_TRIES_MAX
from penstock.base.values import replace
from penstock.contract.control_messages import MembersFile
from penstock.contract.ids import BlobName, SwapId
from penstock.contract.latest import Latest
from penstock.contract.manifest import BlobRef, RootManifest
from penstock.protocol.core_context import StepContext
from penstock.protocol.keeper_core_messages import (
    BlobKind,
    BlobNotWritten,
    BlobRead,
    BlobUnreadable,
    BlobWritten,
    LatestRead,
    LatestUnreadable,
    ReadBlob,
    ReadLatest,
    SwapConflicted,
    SwapDone,
    SwapLatest,
    SwapUnknown,
    WriteBlob,
)

SwapEvent = SwapDone | SwapConflicted | SwapUnknown | LatestRead | LatestUnreadable

BlobEvent = BlobWritten | BlobNotWritten | BlobRead | BlobUnreadable


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


@dataclass(slots=True)
class ManifestCache:
    """Contents by name, files being read or written, and damaged files. Names are never reused."""

    retry_s: float
    contents: dict[BlobName, RootManifest | MembersFile] = field(default_factory=dict)
    damaged: dict[BlobName, str] = field(default_factory=dict)
    reading: dict[BlobName, float | None] = field(default_factory=dict)
    writing: dict[BlobName, RootManifest | MembersFile] = field(default_factory=dict)
    written: dict[BlobName, BlobRef] = field(default_factory=dict)
    failed: dict[BlobName, str] = field(default_factory=dict)

    def on_event(self, context: StepContext, event: BlobEvent) -> None:
        """Take the answer to a read or a write of this cache."""
        match event:
            case BlobRead(ref, value):
                self.reading.pop(ref.name, None)
                self.contents[ref.name] = value
            case BlobUnreadable(ref, reason, damaged):
                if damaged:
                    self.damaged[ref.name] = reason
                self.reading[ref.name] = context.now + self.retry_s
            case BlobWritten(ref):
                if ref.name in self.writing:
                    self.contents[ref.name] = self.writing.pop(ref.name)
                    self.written[ref.name] = ref
            case BlobNotWritten(name, reason):
                if name in self.writing:
                    del self.writing[name]
                    self.failed[name] = reason

    def _ask(self, context: StepContext, ref: BlobRef, kind: BlobKind) -> None:
        if ref.name in self.damaged:
            return
        if ref.name in self.reading:
            retry_at = self.reading[ref.name]
            if retry_at is None or not context.due_or_wake(retry_at):
                return
        self.reading[ref.name] = None
        context.do(ReadBlob(ref, kind))

    def root(self, context: StepContext, ref: BlobRef) -> RootManifest | None:
        """Return a root manifest, or order its read and return None until it is there."""
        value = self.contents.get(ref.name)
        if value is None:
            self._ask(context, ref, BlobKind.ROOT)
            return None
        assert isinstance(value, RootManifest), f"{ref.name} is no root manifest"
        return value

    def members(self, context: StepContext, ref: BlobRef) -> MembersFile | None:
        """Return a members file, or order its read and return None until it is there."""
        value = self.contents.get(ref.name)
        if value is None:
            self._ask(context, ref, BlobKind.MEMBERS)
            return None
        assert isinstance(value, MembersFile), f"{ref.name} is no members file"
        return value

    def write(self, context: StepContext, name: BlobName, value: RootManifest | MembersFile) -> None:
        """Store a file; it appears in ``written`` or in ``failed``."""
        self.writing[name] = value
        context.do(WriteBlob(name, value))

    def keep(self, names: list[BlobName]) -> None:
        """Forget all contents but those of ``names``."""
        self.contents = {n: v for n, v in self.contents.items() if n in names}
        self.written = {n: r for n, r in self.written.items() if n in names}
        self.failed = {n: r for n, r in self.failed.items() if n in names}
