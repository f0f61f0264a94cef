"""What the thread of a task works with: the worker around it, its inbox, and the parts that it owns.

Any thread puts events into the inbox; the task's thread takes them and is woken.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from penstock.base.errors import StorageError
from penstock.base.limits import SINK_STAGED_BYTES_MAX, TASK_INBOX_MAX
from penstock.base.threads import monotonic
from penstock.cluster.in_flight import Slot
from penstock.contract.ids import ChannelId, Epoch, TaskId, Term, Version
from penstock.contract.manifest import SinkHandle, StateFile, TaskManifest
from penstock.contract.plan import EdgePlan
from penstock.engine.checkpoint_files import SinkRaised, SnapshotWriter
from penstock.engine.group_load import GroupLoad
from penstock.engine.router import Custom
from penstock.engine.source_reader import SourceReader
from penstock.model.elements import Barrier
from penstock.ports import Clock, CommitAwareWriter, LatencyMeter
from penstock.protocol.task.task_core import TaskCore
from penstock.protocol.task.task_messages import (
    EpochCommitted,
    Event,
    Expedited,
    Injected,
    LoadState,
    Preloaded,
    Published,
    ResetTo,
    SnapshotStored,
    StoreFailed,
)
from penstock.transport.input import TaskInput, Wakeup
from penstock.transport.output import Output

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.keyed_state.keyed_backend import KeyedStateBackend
    from penstock.ports import BlobStore, Pending, SinkWriter
    from penstock.steps.chain import Chain


# Events that do not depend on the order of rows: they are taken even while rows are being sent. A
# barrier that is already known is harmless too.
_HARMLESS = (EpochCommitted, Expedited, Injected, Published, SnapshotStored, StoreFailed, SinkRaised)

log = logging.getLogger(__name__)


class TaskRuntime(Protocol):
    """The worker around its tasks. Called on task threads; must not block."""

    blobs: "BlobStore"
    snapshot_writer: SnapshotWriter
    clock: Clock

    def work_clock(self) -> float:
        """Return the seconds by which work is measured: slices and credit follow them."""
        ...

    def input(self, task: TaskId) -> TaskInput:
        """Return the input of a task, once the attempt's streams are open."""
        ...

    def output(self, channel: ChannelId) -> Output:
        """Return an output channel."""
        ...

    def preload(self, files: tuple[StateFile, ...], done: Callable[[], None], wanted: Callable[[], bool]) -> None:
        """Read files in the background while they are ``wanted``, so that they are cached."""
        ...

    def run_in_background(self, work: Callable[[], None]) -> None:
        """Do something slow on a thread of its own."""
        ...

    def spread(self, barrier: Barrier) -> None:
        """Give a barrier to the source tasks of this worker."""
        ...

    def ack(self, term: Term, epoch: Epoch, manifest: TaskManifest) -> None:
        """Report a snapshot."""
        ...

    def epoch_failed(self, task: TaskId, term: Term, epoch: Epoch, reason: str) -> None:
        """Report that an epoch cannot be completed."""
        ...

    def publish(self, epoch: Epoch, handles: tuple[SinkHandle, ...], done: Callable[[], None]) -> None:
        """Make output visible in the background."""
        ...

    def clear(self, handles: tuple[SinkHandle, ...], *, discard: bool) -> None:
        """Remove staged files in the background."""
        ...

    def changed(self) -> None:
        """Note that the progress of a task has changed."""
        ...

    def broken(self, task: TaskId, error: BaseException) -> None:
        """Note that a task cannot continue."""
        ...


@dataclass(frozen=True, slots=True)
class OutEdge:
    """An outgoing edge of the task's stage, and how its rows are routed: see :class:`EdgeRouter`.

    ``load`` counts the rows of the key groups of a KEY edge.
    """

    plan: EdgePlan
    keys: tuple[str, ...]
    custom: Mapping[str, Custom]
    rows: "list[pa.RecordBatch]"
    load: GroupLoad | None = None


class SinkSlot:
    """The writer of one sink step. It is opened when rows may flow.

    ``full_since`` is when it was first seen without room (monotonic seconds); None while it has room.
    """

    __slots__ = ("_aware", "_held_up", "_make", "_meter", "_on_first", "_staged_bytes", "_writer", "full_since", "rows")

    def __init__(
        self,
        make: "Callable[[], SinkWriter]",
        on_first: Callable[[], None] | None = None,
        held_up: Callable[[], bool] = lambda: False,
    ) -> None:
        """Remember how to make the writer; ``on_first`` is called after the first rows.

        The first checkpoint of a job begins then: early enough that its barrier passes before the
        queues fill, and late enough that there is output to publish.

        ``held_up`` says whether committed output cannot be published. No barrier comes meanwhile, so what is staged
        has a bound of its own. It holds only so long: a barrier comes behind rows, which then have to be taken.
        """
        self._make = make
        self._on_first = on_first
        self._held_up = held_up
        self._staged_bytes = 0  # of rows behind the last cut
        self._writer: SinkWriter | None = None
        self._meter: LatencyMeter | None = None
        self._aware: CommitAwareWriter | None = None
        self.full_since: float | None = None
        self.rows = 0

    def open(self) -> None:
        """Make the writer, once."""
        if self._writer is None:
            writer = self._writer = self._make()
            self._meter = writer if isinstance(writer, LatencyMeter) else None
            self._aware = writer if isinstance(writer, CommitAwareWriter) else None

    @property
    def writer(self) -> "SinkWriter":
        """Return the open writer."""
        assert self._writer is not None, "rows before the start"
        return self._writer

    def write(self, batch: "pa.RecordBatch") -> None:
        """Take rows."""
        self.rows += batch.num_rows
        self._staged_bytes += batch.nbytes
        self.writer.write(batch)
        if self._on_first is not None:
            self._on_first()
            self._on_first = None

    def seal(self, epoch: Epoch, committed: Epoch, name: str) -> "Pending":
        """Cut: see :meth:`SinkWriter.seal`. ``committed`` is the newest committed epoch."""
        self._staged_bytes = 0
        if self._aware is not None:
            self._aware.committed(committed)
        return self.writer.seal(epoch, name)

    def mark(self, latency_ns: int) -> None:
        """Pass the age of a marker to a sink that measures latency."""
        if self._meter is not None:
            self._meter.mark(latency_ns)

    def room(self) -> bool:
        """Return whether rows may be written now. The clock is read when that ends only."""
        if self._has_room():
            self.full_since = None
            return True
        if self.full_since is None:
            self.full_since = monotonic()
        return False

    def _has_room(self) -> bool:
        if self._staged_bytes >= SINK_STAGED_BYTES_MAX and self._held_up():
            return False
        return self._writer is None or self._writer.room()

    def close(self) -> None:
        """Drop rows that were not prepared."""
        if self._writer is not None:
            self._writer.close()


@dataclass(slots=True)
class TaskParts:
    """The parts of a task, owned by its thread. Steps append emitted rows to ``edges[i].rows``.

    ``in_flight`` notes what the task passes to user functions; None when it calls none.
    """

    core: TaskCore
    chain: "Chain"
    edges: tuple[OutEdge, ...]
    sinks: "dict[str, SinkSlot]"
    state: "KeyedStateBackend | None" = None
    source: SourceReader | None = None
    in_flight: Slot | None = None


@dataclass(slots=True)
class TaskProgress:
    """How much a task has done, for people. Written by the task's thread only.

    ``born`` is when the task was made (monotonic seconds). The time since then in which it neither
    slept nor was blocked is the time it worked.
    """

    born: float = field(default_factory=monotonic)
    rows_in: int = 0
    rows_out: int = 0
    slept_s: float = 0.0
    blocked_s: float = 0.0
    asleep_at: float | None = None
    blocked_at: float | None = None

    def sleep(self, wait: Callable[[float], object], rest_s: float) -> None:
        """Wait for work, at most ``rest_s``, and count the time."""
        self.asleep_at = since = monotonic()
        wait(rest_s)
        self.slept_s += monotonic() - since
        self.asleep_at = None

    def block(self, wait: Callable[[], object]) -> None:
        """Wait for credit, and count the time."""
        self.blocked_at = since = monotonic()
        wait()
        self.blocked_s += monotonic() - since
        self.blocked_at = None

    def waited(self, now: float) -> tuple[float, float]:
        """Return the seconds slept and blocked until ``now``, including a wait under way."""
        asleep, blocked = self.asleep_at, self.blocked_at
        return (
            self.slept_s + (now - asleep if asleep is not None else 0.0),
            self.blocked_s + (now - blocked if blocked is not None else 0.0),
        )


@dataclass(frozen=True, slots=True)
class FetchedState:
    """The state of a LoadState action was fetched in the background, or fetching has failed.

    ``fetched`` is None for a task without keyed state, and when there is nothing to load.
    """

    order: LoadState
    fetched: Any
    error: BaseException | None = None


_ANSWERS = (
    FetchedState,
    Preloaded,
    Published,
    SnapshotStored,
    StoreFailed,
    SinkRaised,
)  # answers to requests of the task: their number is bounded by the requests


@dataclass(frozen=True, slots=True)
class Stop:
    """End the task, but keep its prepared output, which a committed epoch may list."""


class TaskInbox:
    """A queue of control events.

    Few events wait: a leader has one order at a time, and a barrier comes once from the leader and
    once from each task of the worker that meets it. If more than ``TASK_INBOX_MAX`` events wait,
    :meth:`put` raises an error and the attempt ends.
    """

    __slots__ = ("_events", "_reset", "_wakeup")

    def __init__(self, wakeup: Wakeup) -> None:
        """Wake the task through ``wakeup``, on which its thread sleeps."""
        self._events: deque[Event | SinkRaised | FetchedState | Stop] = deque()
        self._wakeup = wakeup
        self._reset: ResetTo | Stop | None = None

    def put(self, event: Event | SinkRaised | FetchedState | Stop) -> None:
        """Add an event and wake the task. From any thread; never blocks.

        Raises StorageError when too many events wait. Answers to the task's own requests and the
        order to end are always accepted.
        """
        if isinstance(event, ResetTo | Stop):
            self._reset = event  # earlier events do not matter any more
        elif len(self._events) >= TASK_INBOX_MAX and not isinstance(event, _ANSWERS):
            raise StorageError(f"a task has not taken {TASK_INBOX_MAX} orders: {type(event).__name__} is too much")
        self._events.append(event)
        self._wakeup.set()

    def take(self) -> Event | SinkRaised | FetchedState | Stop | None:
        """Return the oldest event, or None."""
        return self._events.popleft() if self._events else None

    def take_harmless(self, is_news: Callable[[Barrier], bool]) -> Event | SinkRaised | None:
        """Return the oldest event if it may be handled while rows are being sent; None otherwise.

        A barrier that is already known may be handled: events behind it must not wait for it.
        """
        first = self._events[0] if self._events else None
        if isinstance(first, Injected) and is_news(first.barrier):
            return None
        if isinstance(first, _HARMLESS):
            self._events.popleft()
            return first
        return None

    @property
    def empty(self) -> bool:
        """True when no event waits. A later event wakes the task."""
        return not self._events

    @property
    def reset(self) -> ResetTo | Stop | None:
        """The order to end, if there is one, even when other events wait."""
        return self._reset


class RescaleTimings:
    """Times of the rescale under way, in seconds. Used by the task's thread only."""

    __slots__ = ("_aligned_s", "_blocked_at", "_cut_at", "_task", "load_s")

    def __init__(self, task: TaskId) -> None:
        """Begin outside a rescale."""
        self._task = task
        self._blocked_at: float | None = None
        self._cut_at: float | None = None
        self._aligned_s = 0.0
        self.load_s = 0.0

    def barrier(self, now: float) -> None:
        """Note the first barrier of a cut: its channel is blocked now."""
        if self._blocked_at is None:
            self._blocked_at = now

    def cut(self, now: float) -> None:
        """Note the cut at the rescale barrier: from now on only rows that move are held."""
        since, self._blocked_at = self._blocked_at, None
        self._aligned_s = 0.0 if since is None else now - since
        self._cut_at = now

    def released(self, version: Version, now: float) -> None:
        """Note that the last held rows were sent to their new owners."""
        if self._cut_at is not None:
            moved_ms = 1000 * (now - self._cut_at)
            log.info(
                "event=rescale_released task=%s version=%d moved_ms=%.1f",
                self._task,
                version,
                moved_ms,
            )
            self._cut_at = None

    def resumed(self, version: Version) -> None:
        """Note that the task runs under the new version."""
        log.info(
            "event=rescale_resumed task=%s version=%d aligned_ms=%.1f load_ms=%.1f",
            self._task,
            version,
            1000 * self._aligned_s,
            1000 * self.load_s,
        )
