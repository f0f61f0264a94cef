"""The slow half of a simulated task: snapshots, loading, publication, through the store.

Reads and writes are calls, and replies answer them. Only a read and a publication are retried.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from penstock.contract.codec import ABSENT
from penstock.contract.ids import BlobName, Epoch, SplitId, TaskId, Version
from penstock.contract.keygroups import groups_of
from penstock.contract.manifest import BlobRef, GroupRows, RootManifest, SinkHandle, SplitState, StateFile
from penstock.contract.plan import SINK, StepState
from penstock.protocol.engine.engine_core import TaskMarks
from penstock.protocol.task import task_messages as ev
from penstock.protocol.task.task_core import TaskCore, TaskLifecycle, TaskSetup
from sim.cluster.ports import Shell
from sim.cluster.task_table import Rows, TaskTable
from sim.kernel.calls import STAGING, Get, PublishFile, PublishTable, Put, Reply, Sweep, Unstage
from sim.workload import TABLE


@dataclass(slots=True)
class SimSink:
    """The rows that no snapshot has yet, and the number of snapshots."""

    rows: list[tuple[object, ...]] = field(default_factory=list)
    cuts: int = 0


@dataclass(slots=True)
class Storing:
    """A snapshot that is being stored. ``waiting`` counts the files that are not stored yet."""

    barrier: Any
    waiting: int = 0
    full: bool = False
    rows: int = 0
    blob: BlobRef | None = None
    failed: str = ""
    splits: tuple[SplitState, ...] = ()
    load: tuple[GroupRows, ...] = ()
    cuts: dict[str, tuple[SinkHandle, list[tuple[object, ...]]]] = field(default_factory=dict)
    handles: list[SinkHandle] = field(default_factory=list)


@dataclass(slots=True)
class Loading:
    """Files that are being read from the store."""

    version: Version
    files: tuple[StateFile, ...]
    contents: dict[BlobName, Rows] = field(default_factory=dict)


@dataclass(slots=True)
class SimReader:
    """The position of a split."""

    offset: int
    finished: bool
    max_ts: int | None


@dataclass(frozen=True, slots=True)
class Token:
    """The task that a reply is for, and the subject of the call."""

    task: TaskId
    about: str
    epoch: Epoch = Epoch(0)
    extra: object = None


class TaskFiles:
    """A task's core, state, sinks and readers, and their calls to the store."""

    def __init__(self, shell: Shell, setup: TaskSetup, root: RootManifest | None) -> None:
        self.shell = shell
        self.id = setup.task
        self.core = TaskCore(setup, root)
        self.marks = TaskMarks()
        self.plan = setup.plan
        self.stage = setup.plan.stages[setup.task.stage]
        self.state = TaskTable(self.stage.steps[0], shell.job.shape.groups)
        self.sinks = {name: SimSink() for name in self.stage.sinks}
        self.readers: dict[SplitId, SimReader] = {}
        self.watermark: int | None = None
        self.fired: dict[int, int] = {}  # the latest time that the step was told, by key group
        self.published = Epoch(0)
        self.sent: dict[str, Counter[int]] = {}  # rows by step and key group since the last snapshot
        self._storing: Storing | None = None
        self._loading: Loading | None = None
        self._publishing: dict[Epoch, int] = {}

    def tell(self, event: ev.Event) -> None:
        """Give the core an event and perform its actions."""
        core, frozen = self.core, self.core.state.life is TaskLifecycle.FROZEN
        held = core.state.buffer.held_bytes
        actions = core.step(event, self.shell.now())
        if frozen and core.state.life is TaskLifecycle.RUNNING:
            self.shell.monitor.goes_on(self.shell.attempt, core.state.assignment.version)
        if core.state.buffer.held_bytes and not held:
            self.shell.kernel.happened("rows held for a new owner")
        if isinstance(event, ev.RescaleSettled):
            self.marks.settled = event.version
        for action in actions:
            self.do(action)
        self.marks.exhausted = core.exhausted
        self.marks.published = core.state.sinks.published

    def do(self, action: ev.Action) -> None:
        """Perform the actions that concern files. The task performs the others."""
        match action:
            case ev.Snapshot(barrier, since, _):
                self._snapshot(barrier, since)
            case ev.LoadState():
                self._load(action)
            case ev.Preload(version, files):
                self._preload(version, files)
            case ev.PublishOutput(epoch, handles):
                self._publish(epoch, handles)
            case ev.ExpediteSnapshot():
                who = "somebody" if self.core.state.waiting is None else "a barrier"
                self.shell.kernel.happened(f"{who} waits for a snapshot")
            case ev.Forget(handles) | ev.Discard(handles):
                for handle in handles:
                    self.shell.call(Unstage(staged_name(handle)), Token(self.id, "unstage"))
            case _:
                raise AssertionError(f"unknown action {action}")

    def open_sinks(self) -> None:
        """Open the writers. Output that older attempts have staged is garbage now."""
        for sink in self.sinks:
            self.shell.call(Sweep(sink, self.shell.attempt), Token(self.id, "unstage"))

    # --- Snapshots

    def _snapshot(self, barrier: Any, since: Epoch) -> None:
        epoch = barrier.epoch
        self.shell.kernel.happened("snapshot begun")
        self.shell.monitor.cut(self.shell.attempt, self.id, barrier.term, epoch)
        rows, full = self.state.cut(epoch, since)
        storing = Storing(barrier, full=full, rows=len(rows), splits=self._split_states(), load=self._load_now())
        self._storing = storing
        writes: list[tuple[Put, Token]] = []
        if rows:
            name = self.shell.fresh(barrier.term, epoch, ".state")
            writes.append((Put(name, rows), Token(self.id, "state", epoch)))
        for sink, box in self.sinks.items():
            if box.rows:
                writes.append(self._seal(storing, sink, box))
        storing.waiting = len(writes)
        for put, token in writes:
            self.shell.call(put, token)
        if not writes:
            self._stored()

    def _load_now(self) -> tuple[GroupRows, ...]:
        """Return how many rows were sent to each key group since the last snapshot."""
        sent, self.sent = self.sent, {}
        return tuple(GroupRows(step, *zip(*sorted(rows.items()), strict=True)) for step, rows in sent.items())

    def _seal(self, storing: Storing, sink: str, box: SimSink) -> tuple[Put, Token]:
        epoch, term = storing.barrier.epoch, storing.barrier.term
        box.cuts += 1
        fresh = self.shell.fresh(term, epoch, ".out")
        name = f"{STAGING}{self.shell.attempt}/{sink}/{self.id}-{fresh}"
        rows, box.rows = box.rows, []
        data = json.dumps({"staged": name, "cut": box.cuts, "rows": rows})
        whole = True if StepState(sink, SINK, TABLE) in self.plan.states else ABSENT
        handle = SinkHandle(sink, self.id, epoch, data, len(rows), len(data), whole)
        storing.cuts[sink] = (handle, rows)
        return Put(BlobName(name), tuple(rows)), Token(self.id, "sink", epoch, sink)

    def _split_states(self) -> tuple[SplitState, ...]:
        return tuple(SplitState(s, "", r.offset, r.finished, r.max_ts) for s, r in self.readers.items())

    def _written(self, token: Token, reply: Reply) -> None:
        storing = self._storing
        assert storing is not None
        storing.waiting -= 1
        if token.about == "state":
            if reply.error:
                storing.failed = f"state file: {reply.error}"
            else:
                assert isinstance(reply.value, BlobRef)
                storing.blob = reply.value
        else:
            assert isinstance(token.extra, str)
            handle, rows = storing.cuts[token.extra]
            if reply.error:
                storing.failed = f"sink: {reply.error}"
                box = self.sinks[token.extra]
                box.rows = rows + box.rows
            else:
                storing.handles.append(handle)
        if storing.waiting == 0:
            self._stored()

    def _stored(self) -> None:
        storing, self._storing = self._storing, None
        assert storing is not None
        barrier, handles = storing.barrier, tuple(storing.handles)
        if storing.failed:
            self.tell(ev.StoreFailed(barrier.term, barrier.epoch, storing.failed, handles))
            return
        share = self.core.state.routing[0].share_of(self.id)
        files = self.state.stored(barrier.epoch, storing.blob, share, storing.rows, storing.full)
        parts = ev.SnapshotParts(files, storing.splits, handles, load=storing.load)
        self.tell(ev.SnapshotStored(barrier.term, barrier.epoch, parts))

    # --- Loading

    def _load(self, action: ev.LoadState) -> None:
        for split in action.splits:
            self.readers[split.split] = SimReader(split.offset, split.finished, split.max_ts)
        if action.watermark_us is not None:
            self.watermark = action.watermark_us
        for fired in action.fired:
            self._told(groups_of(fired.groups), fired.time_us)
        self._loading = Loading(action.version, action.files)
        names = dict.fromkeys(f.blob for f in action.files)
        for ref in names:
            self.shell.call(Get(ref), Token(self.id, "load", extra=ref))
        if not names:
            self._all_loaded()

    def _told(self, groups: Iterable[int], time_us: int) -> None:
        for group in groups:
            self.fired[group] = max(time_us, self.fired.get(group, time_us))

    def _read(self, token: Token, reply: Reply) -> None:
        assert isinstance(token.extra, BlobRef)
        if reply.error == "failed":
            self.shell.call(Get(token.extra), token)
            return
        if reply.error:
            self.shell.damaged(f"state file {token.extra.name} is {reply.error}")
            return
        loading = self._loading
        assert loading is not None
        assert isinstance(reply.value, tuple)
        loading.contents[token.extra.name] = reply.value
        if len(loading.contents) == len({f.blob.name for f in loading.files}):
            self._all_loaded()

    def _all_loaded(self) -> None:
        loading, self._loading = self._loading, None
        assert loading is not None
        self.state.load(loading.files, loading.contents)
        self.tell(ev.Loaded(loading.version))

    def _preload(self, version: Version, files: tuple[StateFile, ...]) -> None:
        names = dict.fromkeys(f.blob for f in files)
        left = [len(names)]
        for ref in names:
            self.shell.call(Get(ref), Token(self.id, "preload", extra=(version, left)))
        if not names:
            self.tell(ev.Preloaded(version))

    # --- Publication

    def _publish(self, epoch: Epoch, handles: tuple[SinkHandle, ...]) -> None:
        calls = publications(handles, epoch)
        self._publishing[epoch] = len(calls)
        for call in calls:
            self.shell.call(call, Token(self.id, "publish", epoch))
        if not handles:
            self._published(epoch)

    def _published(self, epoch: Epoch) -> None:
        self.published = max(self.published, epoch)
        self.tell(ev.Published(epoch))

    def replied(self, token: Token, reply: Reply) -> None:
        """Take the outcome of a call."""
        match token.about:
            case "state" | "sink":
                self._written(token, reply)
            case "load":
                self._read(token, reply)
            case "preload":
                assert isinstance(token.extra, tuple)
                version, left = token.extra
                if reply.error == "missing":
                    assert isinstance(reply.op, Get)
                    self.shell.monitor.missing(self.shell.attempt, version, reply.op.ref.name)
                left[0] -= 1
                if left[0] == 0:
                    self.tell(ev.Preloaded(version))
            case "publish":
                if reply.error:
                    self.shell.call(reply.op, token)
                    return
                self._publishing[token.epoch] -= 1
                if self._publishing[token.epoch] == 0:
                    self._published(token.epoch)


def staged_name(handle: SinkHandle) -> str:
    """Return the place where a handle's rows are staged."""
    return str(json.loads(handle.data)["staged"])


def publication(handle: SinkHandle, epoch: Epoch) -> PublishFile:
    """Return the call that makes a handle visible under the epoch that committed it."""
    data = json.loads(handle.data)
    target = f"{epoch:08d}-{handle.sink}-{handle.task}-{data['cut']:06d}"
    return PublishFile(data["staged"], target, tuple(tuple(row) for row in data["rows"]))


def publications(handles: Iterable[SinkHandle], epoch: Epoch) -> list[PublishFile | PublishTable]:
    """Return the calls that make handles visible: one for each file, and one for each table."""
    calls: list[PublishFile | PublishTable] = []
    tables: dict[str, list[PublishFile]] = {}
    for handle in handles:
        if handle.whole is True:
            tables.setdefault(handle.sink, []).append(publication(handle, epoch))
        else:
            calls.append(publication(handle, epoch))
    return calls + [PublishTable(sink, epoch, tuple(files)) for sink, files in tables.items()]
