"""Open windows move with their key group. Each is emitted once, by the owner of the group."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.contract.graph import Compute, Function
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Range, Share, intersect
from penstock.contract.manifest import StateFile
from penstock.contract.settings import StateSettings
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.steps.base import BOUND_COLUMN, NO_BOUND
from penstock.steps.keyed import KeyColumns
from penstock.steps.windows.by_shape import AnyWindowStep, window
from penstock.steps.windows.late_rows import WindowShape
from penstock.storage.blobs import DirectoryBlobStore

GROUPS = 16
TIME = pa.timestamp("us")
INPUT = pa.schema([("mote", pa.int64()), ("ts", TIME)])
OUTPUT = pa.schema([("mote", pa.int64()), ("window_start", TIME), ("window_end", TIME), ("count", pa.int64())])
NUMBERS = iter(range(1000))


class Task:
    """One task: its window step, its state, and the windows that it has emitted."""

    def __init__(self, folder: Path, share: Share) -> None:
        self.state = KeyedStateBackend(StateSettings(), share, GROUPS, folder)
        self.blobs = DirectoryBlobStore(folder / "blobs")
        keys = KeyColumns(INPUT, ["mote"], GROUPS)
        shape = WindowShape(10, 0, 5, "ts")
        compute = (Compute("count", Function.COUNT),)
        self.step: AnyWindowStep = window("w", shape, keys, compute, (INPUT, OUTPUT))
        self.step.open(self.state.open)
        self.out: list[Any] = []
        self.late: list[Any] = []
        self.step.bind(
            {
                "main": lambda b: self.out.extend(b.to_pylist()),
                "late": lambda b: self.late.extend(b.to_pylist()),
            }
        )

    def rows(self, ts: int, motes: list[int]) -> None:
        times = pa.array([ts] * len(motes), pa.int64()).cast(TIME)
        bounds = pa.array([NO_BOUND] * len(motes), pa.int64())
        named = {"mote": motes, "ts": times, BOUND_COLUMN: bounds}
        self.step.on_batch(pa.record_batch(named))

    def checkpoint(self, epoch: int) -> tuple[StateFile, ...]:
        cut = self.state.flip(Epoch(epoch))
        files = cut.write(lambda end: BlobName(f"{next(NUMBERS)}{end}"), self.blobs)
        self.state.committed(Epoch(epoch))
        return files

    def counts(self) -> dict[int, int]:
        return {r["mote"]: r["count"] for r in self.out}


def narrowed(files: tuple[StateFile, ...], share: Share) -> tuple[StateFile, ...]:
    return tuple(StateFile(f.blob, f.state, intersect(f.groups, share), f.order, f.epoch, f.rows) for f in files)


def test_each_window_is_emitted_once_by_its_owner(tmp_path: Path) -> None:
    everything: Share = (Range(0, GROUPS),)
    moving: Share = (Range(8, GROUPS),)
    motes = list(range(40))
    old = Task(tmp_path, everything)
    old.rows(3, motes)
    old.step.on_watermark(14)
    assert not old.out, "the lateness has not passed"
    old.checkpoint(1)
    old.rows(4, motes[:20])
    files = old.checkpoint(2)

    new = Task(tmp_path, moving)
    new.state.load(narrowed(files, moving), new.blobs)
    new.step.on_groups_gained(moving, 14)
    old.state.drop_groups(moving)
    for task in (old, new):
        task.step.on_watermark(15)
    assert not set(old.counts()) & set(new.counts())
    assert {**old.counts(), **new.counts()} == {m: 2 if m < 20 else 1 for m in motes}

    owned = list(new.counts())[:2]
    new.rows(5, owned)  # a split was idle: its row comes behind the watermark
    assert [r["mote"] for r in new.late] == owned
    assert new.step.counters()["late_after_idle"] == 2
    again = Task(tmp_path, moving)
    again.state.load(new.checkpoint(3), again.blobs)
    again.step.on_groups_gained(moving, 15)
    again.rows(5, owned)
    again.step.on_watermark(2**63 - 1)
    assert not again.out, "what was emitted before the checkpoint is not emitted again"
    assert len(again.late) == 2
    for task in (old, new, again):
        task.state.close()
