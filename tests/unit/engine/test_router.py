"""Rows find their receivers: of now, and of after a rescale."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from penstock.base.errors import RowNotSentError, UserCodeError
from penstock.base.values import replace
from penstock.contract.ids import ChannelId, Ordinal, StageIndex, TaskId
from penstock.contract.plan import (
    Assignment,
    EdgePlan,
    Partitioning,
    PhysicalPlan,
    StagePlan,
    first_assignment,
    next_assignment,
    routes,
)
from penstock.engine.router import Custom, EdgeRouter, Partitioner
from penstock.model.keys import hash_columns, key_groups
from penstock.protocol.task.task_messages import RoutedRows
from penstock.steps.base import BOUND_FIELD

EDGE = EdgePlan(0, StageIndex(0), StageIndex(1), Partitioning.KEY)
PLAN = PhysicalPlan(
    "job",
    16,
    (
        StagePlan(StageIndex(0), "read", ("read",), source="read"),
        StagePlan(StageIndex(1), "count", ("count",), keyed=True),
    ),
    (EDGE,),
    "",
)
TWO = first_assignment(PLAN, 2, {})
THREE = next_assignment(PLAN, TWO, 3)
ONE = next_assignment(PLAN, TWO, 1)
SENDER = TaskId(StageIndex(0), Ordinal(0), 0)
BATCH = pa.record_batch({"word": [f"w{n}" for n in range(500)], "n": list(range(500))})


def to(worker: int) -> ChannelId:
    return ChannelId(0, SENDER, TaskId(StageIndex(1), Ordinal(worker), 0))


def pieces(
    kind: Partitioning,
    new: Assignment | None = None,
    custom: Custom | None = None,
    batch: pa.RecordBatch = BATCH,
) -> list[RoutedRows]:
    edge = replace(EDGE, partitioning=kind)
    router = EdgeRouter(routes(PLAN, edge, SENDER, TWO, new), ("word",), {} if custom is None else {"": custom})
    return router.pieces(batch)


def owners(table: Assignment) -> list[ChannelId]:
    found = {}
    for task, share in zip(table.stages[1].tasks, table.stages[1].shares, strict=True):
        for groups in share:
            found.update(dict.fromkeys(range(groups.start, groups.stop), to(task.worker)))
    return [found[g] for g in range(16)]


@pytest.mark.parametrize("new", [None, THREE, ONE])
def test_each_row_goes_to_the_owner_of_its_key_group_in_both_tables(new: Assignment | None) -> None:
    groups = key_groups(hash_columns([BATCH.column("word")]), 16).tolist()
    old_owners, new_owners = owners(TWO), owners(new or TWO)
    rows: list[int] = []
    for piece in pieces(Partitioning.KEY, new):
        numbers = piece.data.payload.column("n").to_pylist()
        assert numbers == sorted(numbers)  # the order of rows is kept
        rows += numbers
        for n in numbers:
            assert (piece.old, piece.new) == (old_owners[groups[n]], new_owners[groups[n]])
    assert sorted(rows) == list(range(500))


def test_broadcast_reaches_every_receiver_of_each_version() -> None:
    found = [(p.old, p.new) for p in pieces(Partitioning.BROADCAST, THREE)]
    assert found == [(to(0), to(0)), (to(1), to(1)), (None, to(2))]
    found = [(p.old, p.new) for p in pieces(Partitioning.BROADCAST, ONE)]
    assert found == [(to(0), to(0)), (to(1), None)]


def test_round_robin_prefers_receivers_that_stay() -> None:
    (only,) = pieces(Partitioning.ROUND_ROBIN, ONE)
    assert (only.old, only.new) == (to(0), to(0))


def test_a_custom_partitioner_is_asked_about_both_versions() -> None:
    def by_number(batch: pa.RecordBatch, receivers: int) -> list[int]:
        return [n % receivers for n in batch.column("n").to_pylist()]

    for piece in pieces(Partitioning.CUSTOM, THREE, Partitioner("count", by_number)):
        for n in piece.data.payload.column("n").to_pylist():
            assert (piece.old, piece.new) == (to(n % 2), to(n % 3))


def test_the_scheme_before_and_the_one_after_deal_out_the_same_rows() -> None:
    def by_number(batch: pa.RecordBatch, receivers: int) -> list[int]:
        return [n % receivers for n in batch.column("n").to_pylist()]

    def turned(batch: pa.RecordBatch, receivers: int) -> list[int]:
        return [(n + 1) % receivers for n in batch.column("n").to_pylist()]

    schemes = {"even": Partitioner("count", by_number, "even"), "turned": Partitioner("count", turned, "turned")}
    for new, tasks in ((next_assignment(PLAN, TWO, 2), 2), (THREE, 3)):
        table = routes(PLAN, replace(EDGE, partitioning=Partitioning.CUSTOM), SENDER, TWO, new)
        router = EdgeRouter(replace(table, schemes=("even", "turned")), (), schemes)
        for piece in router.pieces(BATCH):
            for n in piece.data.payload.column("n").to_pylist():
                assert (piece.old, piece.new) == (to(n % 2), to((n + 1) % tasks))


def test_a_scheme_that_points_nowhere_is_named() -> None:
    with pytest.raises(UserCodeError, match=r"step 'count': .*scheme 'hot' gives places in 0\.\.1, not 5"):
        pieces(Partitioning.CUSTOM, None, Partitioner("count", lambda rows, tasks: [5] * rows.num_rows, "hot"))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            lambda rows, tasks: [0] * 7 + [2] * (rows.num_rows - 7),
            r"step 'count': .* places in 0\.\.1, not 2\nrecord: \{'word': 'w7', ",
        ),
        (lambda rows, tasks: [0], "step 'count': TypeError: .* 500 whole numbers, not int64 of"),
        (lambda rows, tasks: [0.5] * rows.num_rows, "500 whole numbers, not float64"),
        (lambda rows, tasks: rows.column("wrod"), "step 'count': KeyError"),
    ],
)
def test_a_partitioner_that_fails_or_points_nowhere_fails_the_job_by_its_step(
    answer: Callable[..., object], message: str
) -> None:
    with pytest.raises(UserCodeError, match=message):
        pieces(Partitioning.CUSTOM, None, Partitioner("count", answer))


def test_a_partitioner_sees_no_hidden_columns() -> None:
    seen: list[list[str]] = []

    def first(rows: pa.RecordBatch, tasks: int) -> list[int]:
        seen.append(rows.schema.names)
        return [0] * rows.num_rows

    stamped = BATCH.append_column(BOUND_FIELD, pa.array([0] * 500, BOUND_FIELD.type))
    (piece,) = pieces(Partitioning.CUSTOM, None, Partitioner("count", first), stamped)
    assert seen == [["word", "n"]]
    assert piece.data.payload.schema.names == stamped.schema.names


def test_a_sender_that_leaves_has_no_receiver_in_the_next_version() -> None:
    edge = replace(EDGE, partitioning=Partitioning.KEY)
    leaver = TaskId(StageIndex(0), Ordinal(1), 0)
    table = routes(PLAN, edge, leaver, TWO, ONE)
    assert set(table.new) == {None}


def test_a_row_that_its_receiver_would_refuse_is_not_sent() -> None:
    wrong = pa.array([b"good", b"\xff\xfe"], pa.binary()).view(pa.string())
    with pytest.raises(RowNotSentError, match="record"):
        pieces(Partitioning.KEY, batch=pa.record_batch({"word": wrong}))
