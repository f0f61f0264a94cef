"""Tasks that run one step whose rows wait for answers, with checkpoints, restores and moves of key groups.

The calls of the steps are kept until a test says which are answered. A cut may find any of them unanswered. The calls
of tasks that are gone are never answered to anybody else: the new tasks ask again.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, Generic, TypeVar, TypeVarTuple, Unpack

import pyarrow as pa

from penstock.base.values import replace
from penstock.contract.graph import DEAD_LETTER, MAIN
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Range, Share, intersect, subtract
from penstock.contract.manifest import StateFile
from penstock.contract.settings import StateSettings
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.steps.base import split_hidden
from penstock.steps.enrich.asked_rows_step import AskedRowsStep
from penstock.steps.enrich.async_calls import Ask, CallOutcome, outcome_of
from penstock.steps.keyed import KeyColumns
from penstock.storage.blobs import DirectoryBlobStore

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
GROUPS = 8
BEFORE_ALL = -(2**62)  # the time of a task that has heard none


class _NoSockets:
    """What a loop waits with, in the place of a selector: its clock goes on to the next timer."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def select(self, timeout: float | None) -> list[object]:
        assert timeout is not None, "nothing will ever happen"
        self.now_s += timeout
        return []


class SkippingLoop(asyncio.BaseEventLoop):
    """An event loop in which no wait takes long. Work for threads is done in its thread, ``work_s`` after its begin."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _NoSockets()
        self.work_s = 0.0

    def time(self) -> float:
        return self._selector.now_s

    def _process_events(self, _events: list[object]) -> None:
        """Do nothing: there are no sockets."""

    def _write_to_self(self) -> None:
        """Do nothing: there are no other threads."""

    def run_in_executor(self, executor: object, func: Callable[[Unpack[Ts]], T], *args: *Ts) -> "asyncio.Future[T]":
        done: asyncio.Future[T] = self.create_future()

        def work() -> None:
            try:
                done.set_result(func(*args))
            except Exception as error:
                done.set_exception(error)

        working = self.call_later(self.work_s, work)
        done.add_done_callback(lambda _: working.cancel())
        return done


class HeldCalls:
    """The calls of steps, in the order in which they were begun."""

    def __init__(self, tries_max: int | None = None) -> None:
        self.tries_max = tries_max
        self.loop = SkippingLoop()
        self.open: list[tuple[object, int, Ask]] = []
        self._given: dict[object, list[CallOutcome]] = defaultdict(list)

    def begin(self, source: object, call: int, ask: Ask) -> None:
        self.open.append((source, call, ask))

    def answer(self, place: int, *, times: int = 1, older_s: float | None = None) -> None:
        """Answer a call, maybe more than once. ``older_s``: its query was made so long before."""
        source, call, ask = self.open.pop(place)
        outcome = self.loop.run_until_complete(outcome_of(call, ask))
        if older_s is not None:
            outcome = CallOutcome(call, replace(outcome.value, asked_s=outcome.value.asked_s - older_s))
        self._given[source] += [outcome] * times

    @property
    def answered(self) -> bool:
        return any(self._given.values())

    def answers(self, source: object) -> list[CallOutcome]:
        return self._given.pop(source, [])

    def close(self) -> None:
        self.open.clear()
        self._given.clear()


S = TypeVar("S", bound=AskedRowsStep[Any])


class AskingTask(Generic[S]):
    """One task, with the key groups ``share``."""

    def __init__(self, step: S, share: Share, folder: Path, calls: HeldCalls) -> None:
        self.step, self.share = step, share
        self.state = KeyedStateBackend(StateSettings(), share, GROUPS, folder)
        step.open(self.state.open)
        step.ask_through(calls)


class AskingTasks(Generic[S]):
    """Tasks that have all key groups. What they emit is in ``main`` and ``bad``, in its order."""

    def __init__(self, make: Callable[[], S], keys: KeyColumns, folder: Path, tasks: int = 2) -> None:
        """Begin with so many tasks, each with a step that ``make`` returns."""
        self._make, self._keys, self._folder = make, keys, folder
        self.calls = HeldCalls()
        self.main: list[pa.RecordBatch] = []
        self.bad: list[pa.RecordBatch] = []
        self._blobs = DirectoryBlobStore(folder / "blobs")
        self._epochs, self._names = count(1), count()
        self.tasks = list(self._made(tasks))
        self.said = BEFORE_ALL  # the least time that the tasks told behind the last watermark

    def _made(self, tasks: int) -> Iterator[AskingTask[S]]:
        for number in range(tasks):
            share = (Range(number * GROUPS // tasks, (number + 1) * GROUPS // tasks),)
            task = AskingTask(self._make(), share, self._folder, self.calls)
            task.step.bind({MAIN: self.main.append, DEAD_LETTER: self.bad.append})
            yield task

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows that have left so far."""
        return [row for batch in self.main for row in batch.to_pylist()]

    def push(self, rows: pa.RecordBatch) -> None:
        """Give each task its rows of a batch."""
        groups = self._keys.codec.hashed(self._keys.of(split_hidden(rows)[0]))[1]
        for task in self.tasks:
            mine = [i for i, group in enumerate(groups) if any(r.start <= group < r.stop for r in task.share)]
            if mine:
                task.step.on_batch(rows.take(pa.array(mine)))

    def watermark(self, time_us: int) -> None:
        self.said = max(self.said, min(task.step.on_watermark(time_us) for task in self.tasks))

    def answer(self, place: int = 0, *, times: int = 1, older_s: float | None = None) -> None:
        """Answer an open call, and let the steps take the answer."""
        self.calls.answer(place, times=times, older_s=older_s)
        for task in self.tasks:
            task.step.on_answers()

    def answer_all(self) -> None:
        """Answer all calls, and those that follow from the answers."""
        while self.calls.open:
            self.answer()

    def _cut(self, task: AskingTask[S]) -> list[StateFile]:
        cut = task.state.flip(Epoch(next(self._epochs)))
        while not task.state.copy_on():
            pass
        return list(cut.write(lambda end: BlobName(f"{next(self._names)}{end}"), self._blobs))

    def _load(self, task: AskingTask[S], files: list[StateFile], share: Share) -> None:
        wanted = [(file, intersect(file.groups, share)) for file in files]
        mine = [StateFile(f.blob, f.state, groups, f.order, f.epoch, f.rows) for f, groups in wanted if groups]
        task.state.load(mine, self._blobs)
        task.step.on_loaded()

    def restore(self, tasks: int) -> None:
        """End all tasks at a checkpoint, and let so many new ones go on from it."""
        files = [file for task in self.tasks for file in self._cut(task)]
        for task in self.tasks:
            task.state.close()
        self.calls.close()
        self.tasks = list(self._made(tasks))
        for task in self.tasks:
            self._load(task, files, task.share)

    def move(self, share: Share, of: AskingTask[S], to: AskingTask[S]) -> None:
        """Let key groups go from a task to another one while both run, as a rescale does."""
        files = self._cut(of)
        self._load(to, files, share)
        of.state.drop_groups(share)
        of.step.on_groups_lost(share)
        to.share, of.share = (*to.share, *share), subtract(of.share, share)

    def move_group(self, group: int) -> None:
        """Let one key group go to the next task."""
        (place,) = [n for n, task in enumerate(self.tasks) if any(r.start <= group < r.stop for r in task.share)]
        if len(self.tasks) > 1:
            self.move((Range(group, group + 1),), self.tasks[place], self.tasks[(place + 1) % len(self.tasks)])

    def live_rows(self) -> int:
        """Return how many rows wait in the state of all tasks."""
        (name,) = {task.step.name for task in self.tasks}
        return sum(len(task.state.live_rows(name)) for task in self.tasks)

    def close(self) -> None:
        for task in self.tasks:
            task.state.close()
        self.calls.loop.close()
