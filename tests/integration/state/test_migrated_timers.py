"""Times of a key at which a function is called are still due when another class of its state has taken them over."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

import penstock as ps
from penstock.contract.call_types import CompileChoice
from penstock.contract.graph import MAIN, Call, OnError, Per
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Range, Share
from penstock.contract.settings import StateSettings
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.model.declared.function_types import CallShape, function_types, migrated_state
from penstock.protocol.state_entries import Files
from penstock.steps.keyed import KeyColumns
from penstock.steps.typed.process_input import InputFunction
from penstock.steps.typed.process_step import TypedProcessStep
from penstock.storage.blobs import DirectoryBlobStore

GROUPS = 4
ALL: Share = (Range(0, GROUPS),)
ROWS = pa.schema({"who": pa.string(), "at": pa.int64()})
MADE = pa.schema({"who": pa.string(), "of": pa.int64()})


@ps.record
class Set:
    who: str
    at: int


@ps.record
class Fired:
    who: str
    of: int


@ps.state
class Old:
    times: ps.Timers
    idle: ps.Timer
    unused: int = 0


@ps.state
class New:
    times: ps.Timers
    idle: ps.Timer
    label: str = "none"


def before(r: Set, s: Old, out: ps.Out[Fired]) -> None:
    s.times.add(r.at)
    s.idle = 100


def now(r: Set, s: New, out: ps.Out[Fired]) -> None:
    s.times.add(r.at)


def fire(t: ps.Time, key: Any, s: Any, out: ps.Out[Fired]) -> None:
    out.emit(Fired(key.who, t))


def convert(old: Old) -> New:
    kept: Any = old
    made: Any = New
    return made(times=kept.times, idle=kept.idle, label="converted")  # type: ignore[no-any-return]


class Task:
    """A step with its state in ``folder``. ``out`` are the keys and times of the timers that have fired."""

    def __init__(self, folder: Path, function: Callable[..., Any], *, migrates: bool = False) -> None:
        types = function_types(function, CallShape.PROCESS, {})
        assert types is not None
        assert types.state is not None
        call = Call(function.__name__, Per.RECORD, None, (), OnError.FAIL, CompileChoice.NEVER)
        own = InputFunction(KeyColumns(ROWS, ["who"], GROUPS), call, function, types, ROWS)
        migration = (migrated_state(convert, types.state, {}), convert) if migrates else None
        handlers = {"times": fire, "idle": fire}
        self.step = TypedProcessStep("keep", [own], types, {MAIN: MADE}, handlers=handlers, migration=migration)
        self.state = KeyedStateBackend(StateSettings(), ALL, GROUPS, folder)
        self.blobs, self.numbers = DirectoryBlobStore(folder / "blobs"), count()
        self.step.open(self.state.open)
        self.out: list[tuple[str, int]] = []
        self.step.bind({MAIN: lambda batch: self.out.extend(zip(*batch.to_pydict().values(), strict=True))})

    def checkpoint(self, epoch: int) -> Files:
        snapshot = self.state.flip(Epoch(epoch))
        while not self.state.copy_on():
            pass
        files = snapshot.write(lambda end: BlobName(f"{epoch}-{next(self.numbers)}{end}"), self.blobs)
        self.state.committed(Epoch(epoch))
        return files


def test_timers_of_an_earlier_class_fire_behind_its_migration(tmp_path: Path) -> None:
    old = Task(tmp_path, before)
    old.step.on_batch(pa.record_batch({"who": ["ann", "ann", "bob", "ann"], "at": [30, 10, 20, 40]}, ROWS))
    old.step.on_watermark(15)
    assert old.out == [("ann", 10)]
    files = old.checkpoint(1)
    old.state.close()
    new = Task(tmp_path, now, migrates=True)
    new.state.load(files, new.blobs, ["keep"])
    new.step.on_groups_gained(ALL, 15)
    new.step.on_watermark(35)
    assert new.out == [("bob", 20), ("ann", 30)]
    files = new.checkpoint(2)
    new.state.close()
    again = Task(tmp_path, now, migrates=True)
    again.state.load(files, again.blobs)
    again.step.on_watermark(200)
    assert sorted(again.out) == [("ann", 40), ("ann", 100), ("bob", 100)]
    again.state.close()
