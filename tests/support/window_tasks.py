"""A window step in some tasks, whose state moves to others at a rescale; rows for it, and its output."""

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from penstock.contract.graph import Compute, Function
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Range, Share, intersect
from penstock.contract.manifest import StateFile
from penstock.contract.settings import StateSettings
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.steps.base import BOUND_COLUMN
from penstock.steps.distinct import DistinctStep
from penstock.steps.keyed import KeyColumns
from penstock.steps.load_first import LoadFirstStep
from penstock.steps.ranked import RankedStep
from penstock.steps.windows.all_keys import AllKeysStep
from penstock.steps.windows.by_clock import ClockStep
from penstock.steps.windows.by_shape import window
from penstock.steps.windows.counted import CountStep
from penstock.steps.windows.late_rows import WindowShape
from penstock.steps.windows.sessions import SessionShape, SessionStep
from penstock.steps.windows.sliding import SlidingStep
from penstock.steps.windows.top import WindowTopStep
from penstock.steps.windows.tumbling import WindowStep
from penstock.steps.windows.whole import WholeStep
from penstock.storage.blobs import DirectoryBlobStore

GROUPS = 12
TIME = pa.timestamp("us")
INPUT = pa.schema(
    [
        ("mote", pa.int64()), ("ts", TIME), ("value", pa.float64()), ("whole", pa.int32()), ("big", pa.uint64()),
        (BOUND_COLUMN, pa.int64()),
    ]
)  # fmt: skip
PLAIN = pa.schema(list(INPUT)[:-1])
COMPUTE = (
    Compute("count", Function.COUNT),
    Compute("valued", Function.COUNT, "value"),
    Compute("sum", Function.SUM, "value"),
    Compute("least", Function.MIN, "value"),
    Compute("most", Function.MAX, "whole"),
    Compute("mean", Function.MEAN, "whole"),
    Compute("total", Function.SUM, "big"),
    Compute("newest", Function.LAST, "ts"),
)
TYPES = (
    pa.int64(), pa.int64(), pa.float64(), pa.float64(), pa.int32(), pa.float64(), pa.uint64(), TIME,
)  # fmt: skip
OUTPUT = pa.schema(
    [("mote", pa.int64()), ("window_start", TIME), ("window_end", TIME)]
    + [(c.name, kind) for c, kind in zip(COMPUTE, TYPES, strict=True)]
)

Step = (
    WindowStep
    | SlidingStep
    | SessionStep
    | WholeStep
    | LoadFirstStep
    | ClockStep
    | CountStep
    | AllKeysStep
    | WindowTopStep
    | DistinctStep
    | RankedStep
)
Shape = WindowShape | SessionShape | Callable[[KeyColumns], Step]
NAME = "windows"
ROW = st.tuples(
    st.none() | st.integers(0, 3), st.integers(-60, 250), st.none() | st.integers(-9, 9), st.none() | st.integers(-9, 9)
)
# rows, the disorder that their source allows, and how many tasks there are then (0: as before)
TURN = st.tuples(st.lists(ROW, max_size=14), st.integers(0, 40), st.sampled_from([0, 0, 2, 3]))
TURNS = st.lists(TURN, min_size=1, max_size=8)


class Task:
    """A task that owns a share of the key groups. ``shape`` is that of its windows, or makes its step."""

    def __init__(self, shape: Shape, keys: KeyColumns, share: Share, folder: Path) -> None:
        self.share = share
        self.state = KeyedStateBackend(StateSettings(), share, GROUPS, folder)
        self.step: Step = shape(keys) if callable(shape) else window(NAME, shape, keys, COMPUTE, (PLAIN, OUTPUT))
        self.step.open(self.state.open)


class Tasks:
    """The step in some tasks, which a rescale replaces by others that load their state."""

    def __init__(self, shape: Shape, folder: Path, keys: Sequence[str] = ("mote",), schema: pa.Schema = PLAIN) -> None:
        self._keys = KeyColumns(schema, keys, GROUPS)
        self.main: list[pa.RecordBatch] = []
        self.late: list[pa.RecordBatch] = []
        self._shape, self._folder = shape, folder
        self._blobs = DirectoryBlobStore(folder / "blobs")
        self._epochs, self._names = count(1), count()
        self.tasks = list(self._made(2))

    def _made(self, workers: int) -> Iterator[Task]:
        for number in range(workers):
            share = (Range(number * GROUPS // workers, (number + 1) * GROUPS // workers),)
            task = Task(self._shape, self._keys, share, self._folder)
            task.step.bind({"main": self.main.append, "late": self.late.append})
            yield task

    def push(self, rows: pa.RecordBatch) -> None:
        groups = self._keys.codec.hashed(self._keys.of(rows))[1]
        for task in self.tasks:
            mine = [i for i, group in enumerate(groups) if any(r.start <= group < r.stop for r in task.share)]
            if mine:
                task.step.on_batch(rows.take(pa.array(mine)))

    def watermark(self, time: int) -> None:
        for task in self.tasks:
            while task.step.on_watermark(time) < time:
                pass

    def rescale(self, workers: int, watermark: int) -> None:
        files: list[StateFile] = []
        for task in self.tasks:
            cut = task.state.flip(Epoch(next(self._epochs)))
            while not task.state.copy_on():
                pass
            files += cut.write(lambda end: BlobName(f"{next(self._names)}{end}"), self._blobs)
            task.state.close()
        self.tasks = list(self._made(workers))
        for task in self.tasks:
            wanted = [(f, intersect(f.groups, task.share)) for f in files]
            mine = [StateFile(f.blob, f.state, groups, f.order, f.epoch, f.rows) for f, groups in wanted if groups]
            task.state.load(mine, self._blobs)
            task.step.on_groups_gained(task.share, watermark)


def batch(rows: list[Any], bounds: list[int]) -> pa.RecordBatch:
    motes, times, values, wholes = (list(column) for column in zip(*rows, strict=True))
    big = [None if w is None else w + 9 for w in wholes]
    columns = [pa.array(motes, pa.int64()), pa.array(times, pa.int64()).cast(TIME), pa.array(values, pa.float64())]
    columns += [pa.array(wholes, pa.int32()), pa.array(big, pa.uint64()), pa.array(bounds, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, schema=INPUT)


def plain(batches: list[pa.RecordBatch]) -> list[Any]:
    rows: list[Any] = []
    for each in batches:
        columns = [c.cast(pa.int64()) if c.type == TIME else c for c in each.columns[:-1]]
        rows += zip(*(c.to_pylist() for c in columns), strict=True)
    return rows


def all_deleted(task: Task) -> bool:
    return len(task.state.live_rows(NAME)) == 0


def kept(tasks: Tasks) -> list[dict[str, Any]]:
    """Return what the step shows of its state, task by task."""
    rows = ((task, np.asarray(task.state.live_rows(NAME))) for task in tasks.tasks)
    return [row for task, live in rows if len(live) for row in task.step.contents(live).to_pylist()]


def computed(rows: list[Any], page: int) -> tuple[Any, ...]:
    """Return the computed columns of one window; ``last`` is that of the latest page that has a row."""
    values = [v for _, v, _ in rows if v is not None]
    wholes = [w for _, _, w in rows if w is not None]
    last_page = max(t // page for t, _, _ in rows)
    return (
        len(rows),
        len(values),
        float(sum(values)) if values else None,
        float(min(values)) if values else None,
        max(wholes) if wholes else None,
        sum(wholes) / len(wholes) if wholes else None,
        sum(w + 9 for w in wholes) if wholes else None,
        [t for t, _, _ in rows if t // page == last_page][-1],
    )
