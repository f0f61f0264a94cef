"""Tasks that run one join over key groups, with checkpoints and restores to any number of tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.base.values import replace
from penstock.contract.graph import LEFT, RIGHT, AsOf, How, Join
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Share, intersect, to_share
from penstock.contract.manifest import StateFile
from penstock.contract.settings import StateSettings
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.keyed_state.state_files import StateSnapshot
from penstock.protocol.task.input_progress import BEGIN_OF_TIME
from penstock.steps.base import BOUND_COLUMN, NO_BOUND
from penstock.steps.joins.event_join import EventJoinStep
from penstock.steps.joins.events import Interval
from penstock.steps.joins.pairs import PairBatches
from penstock.steps.joins.partners import IntervalPartners, VersionPartners
from penstock.steps.joins.sides import join_side, timed_side
from penstock.steps.joins.window_join import JoinWindows, WindowJoinStep
from penstock.steps.keyed import KeyColumns
from penstock.storage.blobs import DirectoryBlobStore

GROUPS = 8
TIME = pa.timestamp("us")
LEFT_ROWS = pa.schema([("at", TIME), ("id", pa.int64()), ("x", pa.int64())])
RIGHT_ROWS = pa.schema([("order", pa.int64()), ("note", pa.string()), ("paid", TIME)])
JOINED = pa.schema([*LEFT_ROWS, ("note", pa.string()), ("paid", TIME)])
JOINED_AT = pa.field("joined", TIME)
END = 2**63 - 1
Row = tuple[int | None, int, Any]  # key, time, value


@dataclass(frozen=True)
class Table:
    """The times of a join whose right side is a table."""

    lateness_us: int


Times = JoinWindows | Interval | Table


def left(rows: Sequence[Row], bounds: Sequence[int] | None = None) -> pa.RecordBatch:
    """Make left rows: their value is ``x``."""
    return _batch(
        LEFT_ROWS, {"at": [r[1] for r in rows], "id": [r[0] for r in rows], "x": [r[2] for r in rows]}, bounds
    )


def right(rows: Sequence[Row], bounds: Sequence[int] | None = None) -> pa.RecordBatch:
    """Make right rows: their value is ``note``."""
    named = {"order": [r[0] for r in rows], "note": [r[2] for r in rows], "paid": [r[1] for r in rows]}
    return _batch(RIGHT_ROWS, named, bounds)


def _batch(schema: pa.Schema, columns: dict[str, list[Any]], bounds: Sequence[int] | None) -> pa.RecordBatch:
    rows = len(next(iter(columns.values())))
    arrays = [
        pa.array(columns[f.name], pa.int64()).cast(TIME) if f.type == TIME else pa.array(columns[f.name], f.type)
        for f in schema
    ]
    given = pa.array([NO_BOUND] * rows if bounds is None else bounds, pa.int64())
    return pa.RecordBatch.from_arrays([*arrays, given], schema=schema.append(pa.field(BOUND_COLUMN, pa.int64())))


def plain(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """Return rows as tuples without their event time and the hidden column; times as whole microseconds."""
    columns = [c for c, name in zip(batch.columns, batch.schema.names, strict=True) if name != JOINED_AT.name]
    shown = [c.cast(pa.int64()) if c.type == TIME else c for c in columns[:-1]]
    return list(zip(*(c.to_pylist() for c in shown), strict=True))


def declared(how: How, windows: Times) -> Join:
    """Return the join as a job declares it."""
    if isinstance(windows, Interval):
        return Join(
            None, how, 0, windows.lateness_us, None, windows.lower_us, windows.upper_us, event_time=JOINED_AT.name
        )
    if isinstance(windows, Table):
        return Join(None, how, 0, windows.lateness_us, as_of=AsOf.EVENT)
    return Join(windows.size_us, how, windows.offset_us, windows.lateness_us, event_time=JOINED_AT.name)


class JoinTask:
    """One task with its state. ``out``, ``late`` and ``late_right`` are batches.

    ``said`` is the time that its outputs were told. No result may have an event time before it.
    """

    def __init__(self, folder: Path, share: Share, how: How, windows: Times) -> None:
        self.share = share
        self.state = KeyedStateBackend(StateSettings(), share, GROUPS, folder)
        made = join_side if isinstance(windows, JoinWindows) else timed_side
        sides = (
            made(0, KeyColumns(LEFT_ROWS, ["id"], GROUPS), LEFT_ROWS, "at", how in (How.LEFT, How.FULL)),
            made(1, KeyColumns(RIGHT_ROWS, ["order"], GROUPS), RIGHT_ROWS, "paid", how in (How.RIGHT, How.FULL)),
        )
        self.step: WindowJoinStep | EventJoinStep
        pairs = PairBatches(sides, JOINED, time=JOINED_AT)
        if isinstance(windows, Interval):
            self.step = EventJoinStep("j", IntervalPartners(windows, sides), sides, pairs)
        elif isinstance(windows, Table):
            self.step = EventJoinStep("j", VersionPartners(windows.lateness_us, sides), sides, pairs)
        else:
            self.step = WindowJoinStep("j", windows, sides, pairs)
        self.held = declared(how, windows).held_us
        self.said = BEGIN_OF_TIME
        self.step.open(self.state.open)
        self.out: list[pa.RecordBatch] = []
        self.late: list[pa.RecordBatch] = []
        self.late_right: list[pa.RecordBatch] = []
        self.step.bind({"main": self.out.append, "late": self.late.append, "late-right": self.late_right.append})
        self._take = {LEFT: self.step.side(LEFT), RIGHT: self.step.side(RIGHT)}

    def take(self, side: str, batch: pa.RecordBatch) -> None:
        """Take the rows of a side whose key groups are here."""
        groups = self.step._sides[side == RIGHT].keys.codec.hashed([batch.column("id" if side == LEFT else "order")])[1]
        here = [any(r.start <= g < r.stop for r in self.share) for g in groups.tolist()]
        if any(here):
            self._take[side](batch.filter(pa.array(here)))

    def advance(self, time: int) -> None:
        """Reach a time, slice by slice."""
        while self.fire(time) < time:
            pass

    def fire(self, time: int) -> int:
        """Fire one slice; return the time reached. Fails if a result lies before the time that was said."""
        batches = len(self.out)
        reached = self.step.on_watermark(time)
        for batch in self.out[batches:]:
            earliest = min(batch.column(JOINED_AT.name).cast(pa.int64()).to_pylist())
            assert earliest >= self.said, f"a result at {earliest} is behind the time {self.said}"
        self.said = max(self.said, reached if reached == END else reached - self.held)
        return reached


class JoinTasks:
    """All tasks of a join. ``rows`` and ``lates`` have what was emitted since the first one was made."""

    def __init__(self, folder: Path, how: How, windows: Times) -> None:
        self.folder, self.how, self.windows = folder, how, windows
        self.blobs = DirectoryBlobStore(folder / "blobs")
        self.numbers, self.epochs, self.epoch = count(), count(1), 0
        self.emitted: list[tuple[Any, ...]] = []
        self.lates: list[tuple[Any, ...]] = []
        self.reached: int | None = None
        self.tasks: list[JoinTask] = []
        self.start(1)

    def start(self, tasks: int, files: Sequence[StateFile] = ()) -> None:
        """Begin with so many tasks from the files of a checkpoint."""
        parts = [to_share(range(GROUPS)[i::tasks]) for i in range(tasks)]
        self.tasks = [JoinTask(self.folder, share, self.how, self.windows) for share in parts]
        for task in self.tasks:
            narrowed = [(f, intersect(f.groups, task.share)) for f in files]
            task.state.load([_with(f, groups) for f, groups in narrowed if groups], self.blobs)
            if self.reached is not None:
                task.step.on_groups_gained(task.share, self.reached)
                task.said = self.reached if self.reached == END else self.reached - task.held

    def take(self, side: str, batch: pa.RecordBatch) -> None:
        """Deal rows out to their tasks."""
        for task in self.tasks:
            task.take(side, batch)

    def advance(self, time: int) -> None:
        """Reach a time in all tasks."""
        self.reached = time
        for task in self.tasks:
            task.advance(time)

    def rescale(self, tasks: int) -> None:
        """Take a checkpoint, and go on from it with another number of tasks."""
        files = [file for task in self.tasks for file in self._stored(task)]
        self._collect()
        for task in self.tasks:
            task.state.close()
        self.start(tasks, files)

    def checkpoint(self) -> None:
        """Take a checkpoint, commit it, and go on."""
        for task in self.tasks:
            self._stored(task)
            task.state.committed(Epoch(self.epoch))

    def _stored(self, task: JoinTask) -> tuple[StateFile, ...]:
        return self.written(task, self.cut(task))

    def cut(self, task: JoinTask) -> StateSnapshot:
        """Begin a checkpoint of a task."""
        self.epoch = next(self.epochs)
        return task.state.flip(Epoch(self.epoch))

    def written(self, task: JoinTask, cut: StateSnapshot) -> tuple[StateFile, ...]:
        """Copy the rows that are left, and write the files of a checkpoint."""
        while not task.state.copy_on():
            pass
        return cut.write(lambda end: BlobName(f"{next(self.numbers)}{end}"), self.blobs)

    def _collect(self) -> None:
        for task in self.tasks:
            self.emitted += [row for batch in task.out for row in plain(batch)]
            self.lates += [row for batch in (*task.late, *task.late_right) for row in plain(batch)]
            for batches in (task.out, task.late, task.late_right):
                batches.clear()

    def rows(self) -> list[tuple[Any, ...]]:
        """Return all joined rows so far, in the order in which they came."""
        self._collect()
        return self.emitted

    def close(self) -> None:
        """Release the state."""
        for task in self.tasks:
            task.state.close()


def filled(folder: Path, how: How, windows: Times, rows: Sequence[tuple[int, int]]) -> JoinTasks:
    """Make a join in which each left row of key 1 is paired with each right one, and two right rows are alone.

    ``rows`` are the times of the left and the right row with each number.
    """
    tasks = JoinTasks(folder, how, windows)
    tasks.take(LEFT, left([(1, at, i) for i, (at, _) in enumerate(rows)]))
    tasks.take(RIGHT, right([(1, at, str(i)) for i, (_, at) in enumerate(rows)]))
    tasks.take(RIGHT, right([(2, 5, "alone"), (None, 5, "null")]))
    return tasks


def _with(file: StateFile, groups: Share) -> StateFile:
    return replace(file, groups=groups)
