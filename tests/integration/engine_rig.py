"""Real engine processes under a leader written by hand: it gives orders and waits for reports.

There is no keeper and no coordinator here: they have their own tests. Every wait has a deadline and
wakes on each report.
"""

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket, socketpair

import pyarrow.parquet as pq

from penstock.cluster.link import KeeperLink, LinkClosed
from penstock.contract import control_messages as c
from penstock.contract.codec import encode
from penstock.contract.control_messages import EngineLaunch
from penstock.contract.ids import (
    NO_EPOCH,
    Attempt,
    BlobName,
    Epoch,
    Incarnation,
    JobUid,
    Ordinal,
    TaskId,
    Term,
)
from penstock.contract.latest import Member
from penstock.contract.manifest import BlobRef, RootManifest, SinkHandle, TaskManifest
from penstock.contract.plan import Assignment, PhysicalPlan, first_assignment, next_assignment
from penstock.keeper.engine_launcher import spawn_by
from penstock.model.elements import BarrierKind
from penstock.storage.blobs import DirectoryBlobStore
from tests.support.forks import shared_fork_server

Ends = tuple[socket, socket]
DEADLINE_S = 120.0  # kernels may have to be compiled first
TERM = Term(1)
UID = JobUid("7b0c7a52-6a2e-4d39-9f0e-000000000001")


class Engine:
    """One engine process and what it has said."""

    def __init__(self, ordinal: int, launch: EngineLaunch, ends: Ends) -> None:
        ours, theirs = ends
        self.ordinal = Ordinal(ordinal)
        self.incarnation = launch.incarnation
        with theirs:
            self.process = spawn_by(shared_fork_server().address)(launch, theirs)
        self._words: list[str] = []
        self._reader = threading.Thread(target=lambda: self._words.extend(self.process.lines()), daemon=True)
        self._reader.start()
        self.link = KeeperLink(ours)
        self.hello: c.EngineHello | None = None
        self.status = c.EngineStatus()
        self.acks: dict[tuple[Epoch, TaskId], TaskManifest] = {}
        self.acked: list[tuple[Epoch, TaskId]] = []  # as often as it was said
        self.failed: list[c.EpochFailed] = []
        self.broken: list[c.Broken] = []
        self.wanted: list[Attempt] = []
        self.splits: c.Splits | None = None
        self.gone = False
        self.listener: threading.Thread

    def words(self) -> str:
        """Wait for its end, and return what it wrote to its standard error."""
        self._reader.join()
        return "".join(self._words)

    def hear(self, news: threading.Condition) -> None:
        while True:
            try:
                report = self.link.receive()
            except LinkClosed:
                with news:
                    self.gone = True
                    news.notify_all()
                return
            with news:
                self._take(report)
                news.notify_all()

    def _take(self, report: object) -> None:
        match report:
            case c.EngineHello():
                self.hello = report
            case c.EngineStatus():
                self.status = report
            case c.TaskAck():
                self.acks[report.epoch, report.manifest.task] = report.manifest
                self.acked.append((report.epoch, report.manifest.task))
            case c.EpochFailed():
                self.failed.append(report)
            case c.Broken():
                self.broken.append(report)
            case c.CheckpointWanted():
                self.wanted.append(report.attempt)
            case c.Splits():
                self.splits = report


@dataclass
class Rig:
    """A job on engines of one machine."""

    job_file: Path
    folder: Path
    engines: dict[int, Engine] = field(default_factory=dict)
    lives: list[Engine] = field(default_factory=list)
    attempt: Attempt = Attempt(0)
    over: Attempt = Attempt(0)  # attempts up to here may break: one of their engines was killed
    epoch: Epoch = NO_EPOCH
    newest: Epoch = NO_EPOCH
    root: BlobRef | None = None
    handles: tuple[SinkHandle, ...] = ()
    splits: tuple[c.StageSplits, ...] = ()
    assignment: Assignment | None = None
    files: int = 0
    news: threading.Condition = field(default_factory=threading.Condition)

    # --- Processes ----------------------------------------------------------------------------

    def spawn(self, *ordinals: int) -> None:
        for ordinal in ordinals:
            self.start(ordinal)
        for ordinal in ordinals:
            engine = self.engines[ordinal]
            self.wait(lambda e=engine: e.hello is not None, f"hello of {ordinal}")  # type: ignore[misc]

    def start(self, ordinal: int) -> Engine:
        ours, theirs = socketpair()
        life = Incarnation(str(uuid.uuid4()))
        launch = EngineLaunch(
            UID,
            "job",
            "default",
            Ordinal(ordinal),
            life,
            "",
            str(self.job_file),
            str(self.folder / "storage"),
            str(self.folder / f"scratch-{life}"),
            0.25,
        )
        engine = Engine(ordinal, launch, (ours, theirs))
        self.engines[ordinal] = engine
        self.lives.append(engine)
        engine.listener = threading.Thread(target=engine.hear, args=(self.news,), daemon=True)
        engine.listener.start()
        return engine

    def kill(self, ordinal: int) -> None:
        self.over = self.attempt
        engine = self.engines.pop(ordinal)
        engine.process.kill()
        engine.process.wait()

    def close(self) -> None:
        for engine in self.lives:
            engine.process.kill()
            engine.process.wait()
            engine.link.close()
            engine.listener.join()

    def __enter__(self) -> "Rig":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- Waiting ------------------------------------------------------------------------------

    def wait(self, true: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        with self.news:
            while not true():
                lost = [e.words() for e in self.engines.values() if e.gone]
                broken = [b for e in self.engines.values() for b in e.broken]
                current = [b for b in broken if b.attempt > self.over]
                assert not lost, "\n".join(lost)
                assert not current, current
                left = deadline - time.monotonic()
                assert left > 0, f"no {what}: {[e.status for e in self.engines.values()]}"
                self.news.wait(left)

    def all(self, true: Callable[[c.EngineStatus], bool], what: str) -> None:
        self.wait(lambda: all(true(e.status) for e in self.engines.values()), what)

    def tell(self, command: c.Command) -> None:
        for engine in self.engines.values():
            engine.link.send(TERM, command)

    # --- Orders -------------------------------------------------------------------------------

    @property
    def plan(self) -> PhysicalPlan:
        hello = next(iter(self.engines.values())).hello
        assert hello is not None
        return hello.plan

    def members(self) -> tuple[Member, ...]:
        return tuple(
            Member(e.ordinal, e.incarnation, "", e.hello.flight if e.hello else "")
            for _, e in sorted(self.engines.items())
        )

    def begin(self) -> None:
        """Start an attempt from the last committed epoch, as a recovery does."""
        self.begin_only()
        attempt = self.attempt
        self.all(lambda s: s.running == attempt, "running")

    def begin_only(self) -> None:
        """Start an attempt; it may break before all run."""
        if not self.splits and self.root is None:
            one = self.engines[0]
            one.link.send(TERM, c.Enumerate(Attempt(0), tuple(s.index for s in self.plan.stages)))
            self.wait(lambda: one.splits is not None, "splits")
            assert one.splits is not None
            self.splits = one.splits.splits
        if self.assignment is None:
            names = {s.stage: tuple(x.split for x in s.splits) for s in self.splits}
            self.assignment = first_assignment(self.plan, len(self.engines), names)
        self.attempt = Attempt(self.attempt + 1)
        attempt = self.attempt
        self.tell(c.Reset(attempt, self.epoch, self.root, self.assignment, self.members(), self.splits))
        self.all(lambda s: s.ready == attempt, "ready")
        if self.handles:
            self.engines[0].link.send(TERM, c.Publish(attempt, self.epoch, self.handles))
            one = self.engines[0]
            self.wait(lambda: one.status.published >= self.epoch, "publication")
        self.tell(c.Start(attempt))

    def checkpoint(self, kind: BarrierKind = BarrierKind.CHECKPOINT, *, publish: bool = True) -> RootManifest:
        """Take one epoch and commit it."""
        assert self.assignment is not None
        epoch = self.inject(kind)
        manifests = self.acked(epoch)
        root = self.write_root(epoch, kind, manifests, self.assignment)
        self.commit(epoch, root)
        if publish:
            self.all(lambda s: s.published >= epoch, f"publication of {epoch}")
        return root

    def inject(self, kind: BarrierKind, version: int | None = None) -> Epoch:
        inject = self.barrier(kind, version)
        self.tell(inject)
        return inject.epoch

    def barrier(self, kind: BarrierKind, version: int | None = None) -> c.Inject:
        assert self.assignment is not None
        self.newest = epoch = Epoch(self.newest + 1)
        holds = self.assignment.version if version is None else version
        return c.Inject(self.attempt, epoch, holds, int(kind), self.epoch)  # type: ignore[arg-type]

    def acked(self, epoch: Epoch) -> tuple[TaskManifest, ...]:
        assert self.assignment is not None
        tasks = self.assignment.tasks()

        def acks() -> dict[tuple[Epoch, TaskId], TaskManifest]:
            failed = [f for e in self.engines.values() for f in e.failed if f.epoch == epoch]
            assert not failed, failed
            return {k: m for e in self.engines.values() for k, m in e.acks.items()}

        self.wait(lambda: all((epoch, t) in acks() for t in tasks), f"acks of {epoch}")
        return tuple(acks()[epoch, t] for t in tasks)

    def write_root(
        self,
        epoch: Epoch,
        kind: BarrierKind,
        manifests: tuple[TaskManifest, ...],
        assignment: Assignment,
    ) -> RootManifest:
        self.files += 1
        plan = self.plan
        root = RootManifest(
            UID,
            epoch,
            TERM,
            self.attempt,
            kind.name,
            plan.max_key_groups,
            plan.fingerprint,
            assignment,
            manifests,
            plan.states,
            plan.steps,
        )
        blobs = DirectoryBlobStore(self.folder / "storage")
        name = BlobName(f"{TERM}-{epoch}-{uuid.uuid4()}-{self.files}.root.json")
        self.root = blobs.put(name, encode(root))
        self.epoch = epoch
        self.handles = tuple(h for m in manifests for h in m.handles)
        return root

    def commit(self, epoch: Epoch, root: RootManifest) -> None:
        self.tell(c.Commit(self.attempt, epoch, root.assignment.version))

    def lose(self, ordinal: int) -> None:
        """Commit an epoch that nobody publishes, kill a worker, and recover with a new life."""
        self.checkpoint(publish=False)
        self.kill(ordinal)
        self.spawn(ordinal)
        self.begin()

    def rescale(self, workers: int) -> None:
        """Prepare, barrier, commit, adopt, settle. Joining engines must have been spawned."""
        self.switch(self.prepare(workers), workers)

    def prepare(self, workers: int) -> Assignment:
        """Tell all the next table, and let them fetch the state that they gain."""
        assert self.assignment is not None
        table = next_assignment(self.plan, self.assignment, workers)
        version = table.version
        self.tell(c.Prepare(self.attempt, table, self.members(), self.epoch, self.root, self.splits))
        self.all(lambda s: s.prepared == version, "prepared")
        return table

    def switch(self, table: Assignment, workers: int) -> RootManifest:
        """Barrier, commit, adopt, settle."""
        version = table.version
        epoch = self.inject(BarrierKind.RESCALE, version)
        manifests = self.acked(epoch)
        root = self.write_root(epoch, BarrierKind.RESCALE, manifests, table)
        self.assignment = table
        self.commit(epoch, root)
        assert self.root is not None
        self.tell(c.Adopt(self.attempt, version, epoch, self.root))
        self.all(lambda s: s.resumed == version, "resumed")
        self.all(lambda s: s.published >= epoch, "publication of the rescale")
        self.tell(c.Settled(self.attempt, version))
        self.all(lambda s: s.settled == version, "settled")
        for ordinal in [o for o in self.engines if o >= workers]:
            engine = self.engines[ordinal]
            self.wait(lambda e=engine: e.status.left, f"end of tasks on {ordinal}")  # type: ignore[misc]
            engine.link.send(TERM, c.Shutdown(engine.incarnation, "not needed any more"))
            self.engines.pop(ordinal).process.wait(DEADLINE_S)
        return root

    def finish(self) -> None:
        """Wait for the end of the input, take the final epoch, end the streams."""
        self.all(lambda s: s.exhausted, "end of the input")
        self.checkpoint(BarrierKind.FINAL)
        self.tell(c.EndStreams(self.attempt))
        self.all(lambda s: s.ended, "end of streams")
        for engine in self.engines.values():
            engine.link.send(TERM, c.Shutdown(engine.incarnation, "finished"))
            assert engine.process.wait(DEADLINE_S) == 0
        self.engines.clear()


def counted(folder: Path) -> Counter[str]:
    """Return how often each word was counted in output files, sorted by name.

    Fails where a count does not follow the one before of its word.
    """
    seen: Counter[str] = Counter()
    for file in sorted(folder.glob("*.parquet")):
        table = pq.read_table(file)
        rows = zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True)
        for word, count in rows:
            seen[word] += 1
            assert count == seen[word], f"{word!r} in {file.name}"
    return seen
