"""``send_next_if``: the answer by the outstanding rows, the rows that are shed, and where it may be called."""

import inspect
from pathlib import Path
from sys import maxsize
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import penstock as ps
from penstock.base.limits import SHED_SLICE_ROWS_MAX
from penstock.contract.graph import DEAD_LETTER, MAIN, SHED, Call, OnError, Per
from penstock.inprocess.prepare import prepare
from penstock.steps.base import BOUND_COLUMN
from penstock.steps.shedding import SheddingNodeStep

COLUMNS = {"n": "int64", "nth": "int64"}
SCHEMA = pa.schema([("n", pa.int64()), ("nth", pa.int64())])
EDGES = frozenset({3})


class Valve(ps.SeqNode):
    """Sends each row ``times`` times, as long as fewer than ``queue`` are outstanding."""

    columns: ClassVar = COLUMNS

    def __init__(self, queue: int, times: int = 1) -> None:
        self.queue = queue
        self.times = times

    def consume(self, x: dict[str, Any]) -> None:
        for nth in range(self.times):
            self.send_next_if({"n": x["n"], "nth": nth}, queue=self.queue)


class Choosy(Valve):
    """Raises for every third row, after it has sent one and shed one."""

    on_error: ClassVar = "dead-letter"

    def consume(self, x: dict[str, Any]) -> None:
        super().consume(x)
        if x["n"] % 3 == 0:
            raise ValueError("a third")


class AtTheEnd(Valve):
    def on_stop(self) -> None:
        self.send_next_if({"n": -1, "nth": 0})


class Elsewhere(ps.SeqNode):
    columns: ClassVar = COLUMNS

    def consume(self, x: dict[str, Any]) -> None:
        send_from_outside(self, x)


def send_from_outside(node: ps.SeqNode, x: dict[str, Any]) -> None:
    node.send_next_if({"n": x["n"], "nth": 0})


class Work(ps.SeqNode):
    columns: ClassVar = COLUMNS

    def consume(self, x: dict[str, Any]) -> None:
        self.send_next(x)


class Channel:
    """Says how many rows are outstanding, and keeps what it was asked."""

    def __init__(self, *answers: int) -> None:
        self.answers = [*answers]
        self.asked: list[tuple[Any, int]] = []

    def __call__(self, edges: Any, queue: int) -> int:
        self.asked.append((edges, queue))
        return self.answers.pop(0)


Given = dict[str, list[pa.RecordBatch]]


def step(node: ps.SeqNode, channel: Channel, edges: frozenset[int] = EDGES) -> tuple[SheddingNodeStep, Given]:
    call = Call("a:b", Per.RECORD, on_error=OnError(node.on_error))
    made = SheddingNodeStep("valve", call, node, SCHEMA, edges)
    given: Given = {MAIN: [], SHED: [], DEAD_LETTER: []}
    made.bind({name: rows.append for name, rows in given.items()})
    made.shed_by(channel)
    return made, given


def column(rows: list[pa.RecordBatch], name: str = "n") -> list[int]:
    return [n for batch in rows for n in batch.column(name).to_pylist()]


def batch(rows: int) -> pa.RecordBatch:
    bounds = pa.array([10 * n for n in range(rows)], pa.int64())
    return pa.record_batch([pa.array(range(rows), pa.int64()), bounds], names=["n", BOUND_COLUMN])


def test_a_row_is_sent_while_fewer_than_the_queue_are_outstanding() -> None:
    made, given = step(Valve(100), Channel(97))
    made.on_batch(batch(5))
    assert column(given[MAIN]) == [0, 1, 2]
    assert column(given[SHED]) == [3, 4]
    assert column(given[SHED], BOUND_COLUMN) == [30, 40], "event time stays with a row that is shed"
    assert made.counters() == {"dead_letters": 0, "shed": 2}


def test_it_is_asked_for_each_slice_how_many_rows_are_outstanding() -> None:
    channel = Channel(0, 20, 50)
    made, given = step(Valve(50), channel)
    made.on_batch(batch(SHED_SLICE_ROWS_MAX + 70))
    second = range(SHED_SLICE_ROWS_MAX, SHED_SLICE_ROWS_MAX + 30)
    assert column(given[MAIN]) == [*range(50), *second], "a slice is no longer than the least queue so far"
    assert made.counters()["shed"] == SHED_SLICE_ROWS_MAX + 70 - 80
    assert channel.asked == [(EDGES, maxsize), (EDGES, 50), (EDGES, 50)]


def test_the_input_row_of_an_emitted_row_is_that_of_the_batch() -> None:
    made, given = step(Valve(400), Channel(0, 256))
    parents: list[int | None] = []
    made.bind({MAIN: lambda rows: parents.append(made.parent(rows.num_rows - 1)), SHED: given[SHED].append})
    made.on_batch(batch(SHED_SLICE_ROWS_MAX + 10))
    assert parents == [SHED_SLICE_ROWS_MAX - 1, SHED_SLICE_ROWS_MAX + 9]


def test_a_node_without_a_channel_behind_it_sends_every_row() -> None:
    made, given = step(Valve(1, times=3), Channel(), edges=frozenset())
    made.on_batch(batch(400))
    assert len(column(given[MAIN])) == 1_200
    assert made.counters()["shed"] == 0


def test_a_row_for_which_the_node_raises_is_neither_sent_nor_shed() -> None:
    made, given = step(Choosy(queue=1, times=2), Channel(0))
    made.on_batch(batch(5))
    assert column(given[DEAD_LETTER]) == [0, 3]
    assert column(given[MAIN]) == [1], "a row that raised takes no place"
    assert column(given[SHED]) == [1, 2, 2, 4, 4]


class Again(Work):
    """Works on what was shed."""


def test_the_channels_that_count_are_those_of_rows_that_are_sent() -> None:
    job = ps.Job()
    sent = ps.Pipeline(Valve(10)).on(job.source("rows", ps.parquet("no"), columns={"n": "int64"}))
    ps.Pipeline(Work(), ps.Farm(Again(), 2, on="n")).on(sent).sink("out", ps.discard())
    sent.output("shed").round_robin().map("elsewhere", lambda rows: rows).sink("shed", ps.discard())
    made = prepare(job, None, {"rows": []}, collect=True).job
    receivers = {edge.plan.index: made.plan.stages[edge.plan.receiver].steps[0] for edge in made.edges}
    assert sorted(receivers.values()) == ["Again", "elsewhere"]
    assert [receivers[edge] for edge in made.prompt_edges] == ["Again"]


def run(job: ps.Job, rows: int, **more: Any) -> ps.Result:
    return ps.run(job, inputs={"rows": [{"n": n} for n in range(rows)]}, collect=True, **more)


def test_every_row_is_sent_or_shed_and_counted() -> None:
    job = ps.Job()
    sent = ps.Pipeline(Valve(queue=1, times=2)).on(job.source("rows", ps.parquet("no"), columns={"n": "int64"}))
    ps.Farm(Work(), 2, on="n").on(sent).sink("out", ps.discard())
    sent.output("shed").sink("shed", ps.discard())
    result = run(job, 700, workers=2)
    both = [(row["n"], row["nth"]) for name in ("out", "shed") for row in result[name]]
    assert sorted(both) == [(n, nth) for n in range(700) for nth in (0, 1)]
    assert result.shed == {"Valve": len(result["shed"])}
    assert len(result["shed"]) >= 350, "where one of a pair is sent, the other is not"


def test_rows_that_nobody_reads_are_counted() -> None:
    job = ps.Job()
    sent = ps.Pipeline(Valve(queue=1, times=2)).on(job.source("rows", ps.parquet("no"), columns={"n": "int64"}))
    ps.Farm(Work(), 2, on="n").on(sent).sink("out", ps.discard())
    result = run(job, 50)
    assert len(result["out"]) + result.shed["Valve"] == 100


def test_a_node_behind_a_step_with_state_is_refused_with_file_and_line() -> None:
    job = ps.Job()
    keyed = job.source("rows", ps.parquet("no"), columns={"n": "int64"}).key_by("n")
    counted = keyed.aggregate("counts", count=ps.count())
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    ps.Pipeline(Valve(10)).on(counted).sink("out", ps.discard())
    here = Path(__file__).relative_to(Path.cwd())
    with pytest.raises(ps.ConfigError, match=r"Valve calls send_next_if in a task that keeps state \(of ") as refused:
        run(job, 1)
    assert f"{here}:{line}: step 'Valve': " in str(refused.value)


def test_a_farm_behind_a_step_with_state_has_no_state() -> None:
    job = ps.Job()
    keyed = job.source("rows", ps.parquet("no"), columns={"n": "int64"}).key_by("n")
    counted = keyed.aggregate("counts", count=ps.count())
    ps.Farm(Valve(10), 2).on(counted).sink("out", ps.discard())
    assert len(run(job, 20)["out"]) == 20, "only a sink is behind it, so no row is shed"


def test_it_cannot_be_called_when_a_task_ends() -> None:
    line = inspect.getsourcelines(AtTheEnd.on_stop)[1]
    with pytest.raises(ps.ConfigError, match=r"AtTheEnd\.on_stop calls send_next_if") as refused:
        ps.Farm(AtTheEnd(3), 2)
    assert str(refused.value).startswith(f"{Path(__file__).relative_to(Path.cwd())}:{line}: ")


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (Elsewhere(), "Elsewhere: send_next_if was called by a function outside of the class"),
        (Valve(0), "a queue of less than one row would refuse every row"),
    ],
    ids=["outside of the class", "no queue"],
)
def test_a_call_that_cannot_be_answered_is_an_error_with_the_users_line(node: ps.SeqNode, message: str) -> None:
    job = ps.Job()
    ps.Pipeline(node).on(job.source("rows", ps.parquet("no"), columns={"n": "int64"})).sink("out", ps.discard())
    with pytest.raises(ps.UserCodeError, match=message):
        run(job, 1)


def test_the_output_of_a_node_that_sheds_nothing_does_not_exist() -> None:
    job = ps.Job()
    rows = job.source("rows", ps.parquet("no"), columns=COLUMNS)
    ps.Pipeline(Work()).on(rows).output("shed").sink("out", ps.discard())
    with pytest.raises(ps.ConfigError, match="has no output 'shed': only a ps"):
        run(job, 1)


def test_a_node_can_be_called_in_a_test() -> None:
    node = Valve(2, times=3)
    node.start()
    assert [row["nth"] for row in node({"n": 7})] == [0, 1]
