"""Rows that wait for answers, against plain Python: any order of answers, some twice, some errors, cuts and moves.

The service keeps the calls of the steps until the test says which are answered. A cut may find any of them unanswered.
The calls of tasks that are gone are never answered to anybody else: the new tasks ask again.
"""

import asyncio
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.contract.asynchronous import OnFailure, ResultOrder
from penstock.contract.graph import DEAD_LETTER, MAIN, Call, Enrich, Per
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Range, Share, intersect
from penstock.contract.manifest import StateFile
from penstock.contract.settings import StateSettings
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.steps.base import BOUND_COLUMN, BOUND_FIELD
from penstock.steps.enrich.async_calls import Ask, CallOutcome, outcome_of
from penstock.steps.enrich.enrich_step import EnrichStep
from penstock.steps.keyed import KeyColumns
from penstock.storage.blobs import DirectoryBlobStore

GROUPS = 8
INPUT = pa.schema({"n": pa.int64(), "who": pa.string(), "tags": pa.list_(pa.int64())})
OUTPUT = pa.schema([*INPUT, ("city", pa.string()), ("size", pa.int64())])
# As a source gives them: rows that come out of a state differ from these in nullability.
TIMED = pa.schema([pa.field("n", pa.int64(), nullable=False), *list(INPUT)[1:], BOUND_FIELD])


async def fetch(row: dict[str, Any]) -> dict[str, Any]:
    if row["n"] % 7 == 3:
        raise ValueError(f"no {row['n']}")
    return {"city": f"{row['who']}-{row['n']}", "size": len(row["tags"] or ())}


async def fetch_all(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [await fetch(row) if row["n"] % 7 != 3 else {"city": 1} for row in rows]


class Service:
    """Makes calls when the test says so."""

    tries_max: int | None = None

    def __init__(self) -> None:
        self.open: list[tuple[object, int, Ask]] = []
        self.given: dict[object, list[CallOutcome]] = defaultdict(list)

    def begin(self, source: object, call: int, ask: Ask) -> None:
        self.open.append((source, call, ask))

    def answer(self, place: int, *, twice: bool) -> None:
        source, call, ask = self.open.pop(place % len(self.open))
        answer = asyncio.run(outcome_of(call, ask))
        self.given[source] += [answer, answer] if twice else [answer]

    def place_of(self, number: int) -> int:
        """Return the place of the call for a row."""
        asks: list[Any] = [ask for _, _, ask in self.open]
        return next(place for place, ask in enumerate(asks) if ask.args[-1]["n"] == number)

    @property
    def answered(self) -> bool:
        return any(self.given.values())

    def answers(self, source: object) -> list[CallOutcome]:
        return self.given.pop(source, [])

    def close(self) -> None:
        self.open.clear()
        self.given.clear()


class Task:
    def __init__(self, declared: Enrich, share: Share, folder: Path, service: Service) -> None:
        self.share = share
        self.state = KeyedStateBackend(StateSettings(), share, GROUPS, folder)
        keys = KeyColumns(INPUT, ["who"], GROUPS)
        function: Any = fetch if declared.batch == 1 else fetch_all
        self.step = EnrichStep("e", keys, declared, (function, None), (INPUT, OUTPUT), timed=True)
        self.step.open(self.state.open)
        self.step.ask_through(service)


class Tasks:
    """The step in some tasks, which a rescale replaces by others that load their state."""

    def __init__(self, declared: Enrich, folder: Path) -> None:
        self._declared, self._folder = declared, folder
        self.service = Service()
        self.main: list[pa.RecordBatch] = []
        self.bad: list[pa.RecordBatch] = []
        self._blobs = DirectoryBlobStore(folder / "blobs")
        self._epochs, self._names = count(1), count()
        self.tasks = list(self._made(2))
        self.said = -(2**62)

    def _made(self, workers: int) -> Iterator[Task]:
        for number in range(workers):
            share = (Range(number * GROUPS // workers, (number + 1) * GROUPS // workers),)
            task = Task(self._declared, share, self._folder, self.service)
            task.step.bind({MAIN: self.main.append, DEAD_LETTER: self.bad.append})
            yield task

    def push(self, rows: pa.RecordBatch) -> None:
        groups = KeyColumns(INPUT, ["who"], GROUPS).codec.hashed([rows.column("who")])[1]
        for task in self.tasks:
            mine = [i for i, group in enumerate(groups) if any(r.start <= group < r.stop for r in task.share)]
            if mine:
                task.step.on_batch(rows.take(pa.array(mine)))

    def watermark(self, time: int) -> None:
        self.said = max(self.said, min(task.step.on_watermark(time) for task in self.tasks))

    def answer(self, place: int, *, twice: bool) -> None:
        if self.service.open:
            self.service.answer(place, twice=twice)
            for task in self.tasks:
                task.step.on_answers()

    def rescale(self, workers: int) -> None:
        files: list[StateFile] = []
        for task in self.tasks:
            cut = task.state.flip(Epoch(next(self._epochs)))
            while not task.state.copy_on():
                pass
            files += cut.write(lambda end: BlobName(f"{next(self._names)}{end}"), self._blobs)
            task.state.close()
        self.service.close()
        self.tasks = list(self._made(workers))
        for task in self.tasks:
            wanted = [(f, intersect(f.groups, task.share)) for f in files]
            mine = [StateFile(f.blob, f.state, groups, f.order, f.epoch, f.rows) for f, groups in wanted if groups]
            task.state.load(mine, self._blobs)
            task.step.on_loaded()


def batch(first: int, whos: list[str]) -> pa.RecordBatch:
    numbers = range(first, first + len(whos))
    tags = [None if n % 5 == 0 else list(range(n % 4)) for n in numbers]
    columns = [pa.array(numbers, pa.int64()), pa.array(whos), pa.array(tags, pa.list_(pa.int64()))]
    return pa.RecordBatch.from_arrays([*columns, pa.array(numbers, pa.int64())], schema=TIMED)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("rows"), st.lists(st.sampled_from("abcde"), min_size=1, max_size=8)),
        st.tuples(st.just("answer"), st.tuples(st.integers(0, 50), st.booleans())),
        st.tuples(st.just("answer"), st.tuples(st.integers(0, 50), st.booleans())),
        st.tuples(st.just("watermark"), st.integers(0, 100)),
        st.tuples(st.just("rescale"), st.integers(1, 3)),
    ),
    max_size=25,
)


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from(ResultOrder),
    st.sampled_from([OnFailure.DEAD_LETTER, OnFailure.NULL]),
    st.tuples(st.integers(1, 4), st.integers(1, 3)),
    ACTIONS,
)
def test_each_row_leaves_once_with_its_answer(
    order: ResultOrder, on_error: OnFailure, sizes: tuple[int, int], todo: list[Any]
) -> None:
    capacity, rows_a_call = sizes
    declared = Enrich(Call("m:f", Per.RECORD), order, capacity, batch=rows_a_call, on_error=on_error)
    with tempfile.TemporaryDirectory() as folder:
        tasks, heard = Tasks(declared, Path(folder)), -(2**62)
        given_rows: list[str] = []
        came: dict[int, int] = {}
        for action, value in todo:
            before = len(tasks.main), len(tasks.bad)
            match action:
                case "rows":
                    came |= dict.fromkeys(range(len(given_rows), len(given_rows) + len(value)), heard)
                    tasks.push(batch(len(given_rows), value))
                    given_rows += value
                case "answer":
                    tasks.answer(value[0], twice=value[1])
                case "watermark":
                    heard = max(heard, value)
                    tasks.watermark(heard)
                case "rescale":
                    tasks.rescale(value)
                    tasks.watermark(heard)
            for left in (*tasks.main[before[0] :], *tasks.bad[before[1] :]):
                assert all(tasks.said <= came[n] for n in left.column("n").to_pylist()), "its time was said before"
        while tasks.service.open:
            tasks.answer(0, twice=False)
        _check(tasks, given_rows, declared)
        for task in tasks.tasks:
            assert task.step.on_watermark(1000) == 1000, "no row waits"
            assert len(task.state.live_rows("e")) == 0
            task.state.close()


def _check(tasks: Tasks, whos: list[str], declared: Enrich) -> None:
    found = [row for each in tasks.main for row in each.to_pylist()]
    failed = [n for n in range(len(whos)) if n % 7 == 3]
    letters = declared.on_error is OnFailure.DEAD_LETTER
    wanted: Counter[Any] = Counter()
    for n, who in enumerate(whos):
        size = 0 if n % 5 == 0 else n % 4
        if n not in failed:
            wanted[n, who, f"{who}-{n}", size, n] += 1
        elif not letters:
            wanted[n, who, None, None, n] += 1
    assert Counter((r["n"], r["who"], r["city"], r["size"], r[BOUND_COLUMN]) for r in found) == wanted
    bad = [row for each in tasks.bad for row in each.to_pylist()]
    assert sorted(row["n"] for row in bad) == (failed if letters else [])
    assert all(row["who"] == whos[row["n"]] and row["error_step"] == "e" for row in bad)
    if declared.order is ResultOrder.INPUT:
        for who in set(whos):
            numbers = [row["n"] for row in found if row["who"] == who]
            assert numbers == sorted(numbers), "rows of one key leave in their order"


def test_the_state_shows_the_rows_that_wait() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tasks = Tasks(Enrich(Call("m:f", Per.RECORD)), Path(folder))
        tasks.push(batch(0, ["a", "b", "a"]))
        shown = [
            row
            for task in tasks.tasks
            if len(live := np.asarray(task.state.live_rows("e")))
            for row in task.step.contents(live).to_pylist()
        ]
        assert sorted((row["who"], row["n"]) for row in shown) == [("a", 0), ("a", 2), ("b", 1)]
        for task in tasks.tasks:
            task.state.close()


def test_a_cut_has_rows_whose_answers_wait_and_new_rows_come_behind_them() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tasks = Tasks(Enrich(Call("m:f", Per.RECORD), on_error=OnFailure.NULL), Path(folder))
        tasks.push(batch(0, ["a", "a", "b"]))
        tasks.watermark(50)
        assert tasks.said == -(2**62), "rows wait that came before this time was heard"
        tasks.answer(tasks.service.place_of(1), twice=True)
        assert not tasks.main, "the first row of the key has no answer yet"

        tasks.rescale(1)
        tasks.watermark(50)
        tasks.push(batch(3, ["a"]))
        for n in (3, 1, 2, 0):
            tasks.answer(tasks.service.place_of(n), twice=False)
        assert [n for each in tasks.main for n in each.column("n").to_pylist()] == [2, 0, 1, 3]
        tasks.watermark(60)
        assert tasks.said == 60

        tasks.rescale(2)
        assert not tasks.service.open, "no row waits"
        for task in tasks.tasks:
            task.state.close()
