"""The cache of files that the leader has read or written: each is read once, and kept while named."""

from dataclasses import dataclass, field

from penstock.contract.control_messages import MembersFile
from penstock.contract.ids import BlobName
from penstock.contract.manifest import BlobRef, RootManifest
from penstock.protocol.control_actions import BlobKind, ReadBlob, WriteBlob
from penstock.protocol.control_events import BlobNotWritten, BlobRead, BlobUnreadable, BlobWritten
from penstock.protocol.step_context import StepContext

BlobEvent = BlobWritten | BlobNotWritten | BlobRead | BlobUnreadable


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
