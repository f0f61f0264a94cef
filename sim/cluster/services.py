"""The services outside the processes: metadata store, Lease, shared directory, output folder.

A node sends a :class:`Call`. The service acts when the call arrives, and sends a :class:`Reply` to
the life that called. An unknown outcome means that the reply is lost: the effect has happened, or
happens late, or never happens, as the fault stream decides. The caller gets ``unknown`` after its
time limit. Each store follows the rules of its port.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import Protocol

from penstock.contract.codec import decode, encode
from penstock.contract.control_messages import MembersFile
from penstock.contract.ids import BlobName, Epoch, JobUid
from penstock.contract.latest import Desired, Latest
from penstock.contract.manifest import BlobRef, Origin, RootManifest
from penstock.protocol.output_folder import FolderContents, refusal
from sim.kernel.calls import (
    READS,
    ROOT_FILE,
    SAVEPOINTS,
    STAGING,
    Call,
    ClaimOutput,
    DeleteFiles,
    FileOp,
    Get,
    Late,
    LinkFile,
    ListFiles,
    MetaGet,
    MetaOp,
    MetaSwap,
    PublishFile,
    PublishTable,
    Put,
    ReadFile,
    ReadLease,
    Reply,
    Sweep,
    Unstage,
    WriteLease,
    Written,
)
from sim.kernel.faults import Verdict
from sim.kernel.kernel import SECOND, SimKernel, Violation

CALL_TIMEOUT_US = SECOND
WRITE_US = (500, 30_000)
REPLY_US = (200, 3_000)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """An object of the metadata store. Writes do not change its ``uid``."""

    data: object
    version: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Torn:
    """The content of a file whose writer died or whose write failed."""


@dataclass(slots=True)
class Disk:
    """The shared directory and the output folder on the server."""

    files: dict[BlobName, object] = field(default_factory=dict)
    visible: dict[str, object] = field(default_factory=dict)
    tables: dict[str, tuple[int, tuple[PublishFile, ...]]] = field(default_factory=dict)  # epoch and commit
    owner: JobUid | None = None
    full: bool = False


def ref_of(name: BlobName, content: object) -> BlobRef:
    """Return the reference of content as the real store does: hash and length of its bytes."""
    data = content if isinstance(content, bytes) else repr(content).encode()
    return BlobRef(name, sha256(data).hexdigest(), len(data))


class Watcher(Protocol):
    """A checker of the stores. It is called at each effect."""

    def swapped(self, name: str, old: object, new: object) -> None:
        """An object was replaced."""
        ...

    def deleted(self, name: BlobName) -> None:
        """A file is about to be removed."""
        ...

    def published(self, target: str, staged: str, content: object) -> None:
        """Output is about to become visible."""
        ...

    def wanted(self, desired: Desired) -> None:
        """The user wants something else."""
        ...

    def unstaged(self, name: BlobName) -> None:
        """Staged output is about to be removed."""
        ...

    def is_given_up(self, target: str) -> bool:
        """Return whether a restore gives this output up."""
        ...

    def indexed(self, name: BlobName, content: object) -> None:
        """A copy is about to become a savepoint."""
        ...


class Service:
    """The stores of one job behind one address. They are linearizable: a call acts at one instant."""

    def __init__(self, kernel: SimKernel, chances: Random, *, codec: bool) -> None:
        """Start empty. ``chances`` decides unknown outcomes. ``codec``: files are stored encoded."""
        self.kernel = kernel
        self.chances = chances
        self.watcher: Watcher | None = None
        self.noted: Callable[[], None] | None = None  # an object was written
        self.codec = codec
        self.objects: dict[str, StoredFile] = {}
        self.lease_version = "lease-0"
        self.lease_holder: str | None = None
        self.disk = Disk()
        self.down = False
        self.applied_when_unknown = False
        self._versions = 0

    def write(self, name: str, data: object) -> None:
        """Write an object without a comparison. Only its single writer may do so."""
        now = self.objects.get(name)
        uid = now.uid if now is not None else f"uid-{self._fresh_version()}"
        self._keep(name, StoredFile(data, self._fresh_version(), uid))
        if self.watcher is not None and isinstance(data, Desired):
            self.watcher.wanted(data)

    def begin_directory(self) -> None:
        """Give a new job a new directory and a new Lease. Savepoints and output stay."""
        for name in [n for n in self.disk.files if not n.startswith((SAVEPOINTS, STAGING))]:
            del self.disk.files[name]
        self.lease_holder, self.lease_version = None, self._fresh_version()

    def _keep(self, name: str, stored: StoredFile) -> None:
        self.objects[name] = stored
        if self.noted is not None:
            self.noted()

    def handle(self, event: object, now: float) -> None:
        """Act on a call, or finish one that was begun."""
        match event:
            case Call():
                self._arrived(event)
            case Late(call):
                self._apply(call)
            case Written(call):
                self._written(call)

    def _arrived(self, call: Call) -> None:
        meta = isinstance(call.op, MetaOp)
        if call.verdict is Verdict.FAILED or (self.down and meta):
            self._refuse(call)
        elif call.verdict is Verdict.UNKNOWN:
            self._lose_reply(call)
        elif isinstance(call.op, Put):
            self._begin_write(call, call.op)
        else:
            self._reply(call, self._apply(call))

    def _refuse(self, call: Call) -> None:
        # ROOT alone has a fixed name: it is linked from a fresh one, so it is never torn.
        fresh = isinstance(call.op, Put) and call.op.name not in self.disk.files
        if fresh and isinstance(call.op, Put) and call.op.name != ROOT_FILE:
            self.disk.files[call.op.name] = Torn()
        self._reply(call, Reply(call.token, call.op, error="failed"), CALL_TIMEOUT_US)

    def _lose_reply(self, call: Call) -> None:
        error = "failed" if isinstance(call.op, READS) else "unknown"
        self._reply(call, Reply(call.token, call.op, error=error), CALL_TIMEOUT_US)
        outcome = 0 if self.applied_when_unknown else self.chances.randrange(3)
        if outcome == 0:
            self._apply(call)
        elif outcome == 1:
            self.kernel.happened("effect applied after its caller gave up")
            late = self.chances.randrange(3 * CALL_TIMEOUT_US)
            self.kernel.at(late, "store", Late(call))

    def _begin_write(self, call: Call, op: Put) -> None:
        if op.name == ROOT_FILE:
            self._link_root(call, op)
            return
        if op.name in self.disk.files:
            raise Violation("G", f"{call.client} writes {op.name}, a name that was used before")
        self.disk.files[op.name] = Torn()
        if self.disk.full:
            self.kernel.happened("write to a full disk")
            self._reply(call, Reply(call.token, op, error="failed"))
        else:
            self.kernel.at(self.kernel.streams.schedule.randint(*WRITE_US), "store", Written(call))

    def _link_root(self, call: Call, op: Put) -> None:
        if op.name in self.disk.files or self.disk.full:
            self._reply(call, Reply(call.token, op, error="failed"))
        else:
            self._reply(call, self._apply(call))

    def _written(self, call: Call) -> None:
        if not self._lives(call):
            self.kernel.happened("writer died inside a write")
            return
        assert isinstance(call.op, Put)
        self.disk.files[call.op.name] = self._kept(call.op.content)
        self._reply(call, Reply(call.token, call.op, ref_of(call.op.name, call.op.content)))

    def _apply(self, call: Call) -> Reply:
        op = call.op
        match op:
            case MetaGet(name):
                return Reply(call.token, op, self.objects.get(name))
            case MetaSwap():
                return self._swap(call, op)
            case ReadLease():
                return Reply(call.token, op, (self.lease_holder, self.lease_version))
            case WriteLease(holder, version):
                return self._write_lease(call, holder, version)
            case _:
                return self._apply_to_file(call, op)

    def _apply_to_file(self, call: Call, op: FileOp) -> Reply:
        match op:
            case Put(name, content):
                self.disk.files[name] = self._kept(content)
                return Reply(call.token, op, ref_of(name, content))
            case Get(ref):
                return self._get(call, ref)
            case ReadFile(name):
                found = self.disk.files.get(name)
                there = found is not None and not isinstance(found, Torn)
                return Reply(call.token, op, found, "" if there else "missing")
            case LinkFile(name, content):
                return self._link(call, name, content)
            case ListFiles(under):
                names = [n for n in sorted(self.disk.files) if n.startswith(under)]
                if not under:
                    names = [n for n in names if not n.startswith((STAGING, SAVEPOINTS))]
                return Reply(call.token, op, tuple(names))
            case DeleteFiles(name):
                if self.watcher is not None:
                    self.watcher.deleted(name)
                self.disk.files.pop(name, None)
                return Reply(call.token, op)
            case PublishFile(staged, target, content):
                return self._publish(call, staged, target, content)
            case PublishTable():
                return self._commit_table(call, op)
            case Unstage(staged):
                self._unstage(BlobName(staged))
                return Reply(call.token, op)
            case Sweep(sink, attempt):
                self._sweep(sink, attempt)
                return Reply(call.token, op)
            case ClaimOutput(job, origin):
                return Reply(call.token, op, error=self._claim(job, origin) or "")

    def _link(self, call: Call, name: BlobName, content: object) -> Reply:
        if name in self.disk.files or self.disk.full:
            return Reply(call.token, call.op, error="failed")
        if self.watcher is not None:
            self.watcher.indexed(name, content)
        self.disk.files[name] = content
        return Reply(call.token, call.op)

    def _claim(self, job: JobUid, origin: Origin | None) -> str | None:
        """Take the output folder as ``connectors/file_output.py`` does, at one instant."""
        disk = self.disk
        epochs = [Epoch(int(name.split("-", 1)[0])) for name in disk.visible]
        newest = max(epochs, default=Epoch(0))
        why = refusal(FolderContents(disk.owner, len(epochs), newest, "one"), job, origin)
        if why is None and disk.owner != job:
            if disk.visible:
                self.kernel.happened("output folder taken over")
            disk.owner = job
            for name in [n for n in disk.files if n.startswith(STAGING)]:
                del disk.files[name]
        return why

    def _sweep(self, sink: str | None, attempt: int) -> None:
        for name in [n for n in self.disk.files if n.startswith(STAGING)]:
            _, of_attempt, of_sink, _ = name.split("/", 3)
            if sink in {None, of_sink} and int(of_attempt) < attempt:
                self._unstage(BlobName(name))

    def _unstage(self, name: BlobName) -> None:
        if self.watcher is not None and name in self.disk.files:
            self.watcher.unstaged(name)
        self.disk.files.pop(name, None)

    def _kept(self, content: object) -> object:
        """Return the value that a reader gets. With ``codec`` it is decoded from the stored bytes."""
        if not self.codec or not isinstance(content, RootManifest | MembersFile | Latest | Desired):
            return content
        return decode(type(content), encode(content))

    def _swap(self, call: Call, op: MetaSwap) -> Reply:
        now = self.objects.get(op.name)
        if (now.version if now is not None else None) != op.version:
            self.kernel.happened("swap refused by a conflict")
            return Reply(call.token, op, error="conflict")
        uid = now.uid if now is not None else f"uid-{self._fresh_version()}"
        stored = StoredFile(self._kept(op.data), self._fresh_version(), uid)
        self._keep(op.name, stored)
        if self.watcher is not None:
            self.watcher.swapped(op.name, now.data if now is not None else None, stored.data)
        return Reply(call.token, op, stored)

    def _write_lease(self, call: Call, holder: str | None, version: str) -> Reply:
        if version != self.lease_version:
            return Reply(call.token, call.op, error="conflict")
        self.lease_holder = holder
        self.lease_version = self._fresh_version()
        return Reply(call.token, call.op, (holder, self.lease_version))

    def _get(self, call: Call, ref: BlobRef) -> Reply:
        content = self.disk.files.get(ref.name)
        if content is None:
            self.kernel.happened("reader found its file gone")
            return Reply(call.token, call.op, error="missing")
        if ref_of(ref.name, content) != ref:
            return Reply(call.token, call.op, error="damaged")
        return Reply(call.token, call.op, content)

    def _commit_table(self, call: Call, op: PublishTable) -> Reply:
        epoch, files = self.disk.tables.get(op.table, (0, ()))
        if epoch > op.epoch:
            self.kernel.happened("late commit of a table")
            return Reply(call.token, op)
        if epoch == op.epoch and files != op.files:
            raise Violation("E", f"table {op.table} has another commit of epoch {epoch}")
        replies = [self._publish(call, file.staged, file.target, file.content) for file in op.files]
        failed = next((reply for reply in replies if reply.error), None)
        if failed is None:
            self.disk.tables[op.table] = (op.epoch, op.files)
        return failed or Reply(call.token, op)

    def _publish(self, call: Call, staged: str, target: str, content: object) -> Reply:
        there = self.disk.visible.get(target)
        if there is not None:
            self.kernel.happened("output published again")
            if there != content:
                raise Violation("E", f"{target} is visible with another content")
            return Reply(call.token, call.op)
        kept = self.disk.files.get(BlobName(staged))
        if kept is None and self.watcher is not None and self.watcher.is_given_up(target):
            self.kernel.happened("output published after it was given up")
            return Reply(call.token, call.op, error="missing")
        if kept is None:
            raise Violation("E", f"staged output {staged} is gone before it was published")
        if kept != content:
            raise Violation("E", f"staged output {staged} is not what its handle says")
        if self.watcher is not None:
            self.watcher.published(target, staged, content)
        self.disk.visible[target] = kept
        return Reply(call.token, call.op)

    def _fresh_version(self) -> str:
        self._versions += 1
        return f"v{self._versions}"

    def _lives(self, call: Call) -> bool:
        return self.kernel.alive(call.client) and self.kernel.life(call.client) == call.life

    def _reply(self, call: Call, reply: Reply, delay_us: int | None = None) -> None:
        if self._lives(call):
            delay = delay_us or self.kernel.streams.schedule.randint(*REPLY_US)
            self.kernel.at(delay, call.client, reply)
