"""The barrier aligner against a naive model of its rule, for all interleavings of small inputs."""

from collections.abc import Iterator
from itertools import product

import pytest

from penstock.contract.ids import ChannelId, Epoch, Ordinal, StageIndex, TaskId, Term, Version
from penstock.model.elements import Barrier, BarrierKind
from penstock.protocol.task.input_progress import BarrierAligner

ROW, END = "row", "end"
Script = tuple[object, ...]


def channel(number: int) -> ChannelId:
    sender = TaskId(StageIndex(0), Ordinal(number), 0)
    return ChannelId(0, sender, TaskId(StageIndex(1), Ordinal(0), 0))


def barrier(epoch: int) -> Barrier:
    return Barrier(Term(1), Epoch(epoch), Version(1), BarrierKind.CHECKPOINT, Epoch(0), 0)


def interleavings(lengths: tuple[int, ...]) -> Iterator[list[int]]:
    """List all orders in which the elements of channels may be offered."""
    if not any(lengths):
        yield []
    for index, left in enumerate(lengths):
        if left:
            rest = (*lengths[:index], left - 1, *lengths[index + 1 :])
            for tail in interleavings(rest):
                yield [index, *tail]


def run(scripts: tuple[Script, ...], order: list[int]) -> list[object]:
    """Take elements in ``order`` where the aligner allows it; what it holds waits."""
    aligner = BarrierAligner(channel(i) for i in range(len(scripts)))
    queues = [list(s) for s in scripts]
    pending = list(order)
    trace: list[object] = []
    while pending:
        ready = [i for i in pending if aligner.reads(channel(i))]
        if not ready:
            trace.append("stuck")
            return trace
        index = ready[0]
        pending.remove(index)
        element = queues[index].pop(0)
        if isinstance(element, int):
            cut = aligner.barrier(channel(index), barrier(element))
        elif element == END:
            cut = aligner.end(channel(index))
        else:
            trace.append((index, len(scripts[index]) - len(queues[index])))
            cut = None
        if cut is not None:
            trace.append(cut.epoch)
    return trace


def before(scripts: tuple[Script, ...], epoch: int) -> set[tuple[int, int]]:
    """Return the rows in front of a barrier; of a channel that ended without it, all rows."""
    rows = set()
    for index, script in enumerate(scripts):
        stop = script.index(epoch) if epoch in script else len(script)
        rows |= {(index, place + 1) for place in range(stop) if script[place] == ROW}
    return rows


SCRIPTS: list[tuple[Script, ...]] = [
    ((ROW, 1, ROW, 2), (1, ROW, 2, ROW)),
    ((1, ROW), (ROW, 1), (ROW, 1, ROW)),
    ((ROW, END), (1, ROW, 2)),
    ((1, ROW, 2, END), (ROW, 1, END), (1, 2)),
]


@pytest.mark.parametrize("scripts", SCRIPTS)
def test_a_cut_separates_exactly_the_rows_before_the_barriers(scripts: tuple[Script, ...]) -> None:
    for order in interleavings(tuple(len(s) for s in scripts)):
        trace = run(scripts, order)
        assert "stuck" not in trace
        for epoch in [e for e in (1, 2) if any(e in s for s in scripts)]:
            assert trace.count(epoch) == 1
            taken = {t for t in trace[: trace.index(epoch)] if isinstance(t, tuple)}
            assert taken == before(scripts, epoch)


def test_a_newer_barrier_replaces_an_older_one() -> None:
    """A source that never heard of epoch 1 sends only 2: the task must not wait for 1."""
    for first, second in product((0, 1), repeat=2):
        scripts: tuple[Script, ...] = ((1, ROW, 2), (ROW, 2)) if first else ((2,), (1, 2))
        for order in interleavings(tuple(len(s) for s in scripts)):
            trace = run(scripts, order if second else order[::-1])
            assert trace.count(2) == 1
            assert 1 not in trace
