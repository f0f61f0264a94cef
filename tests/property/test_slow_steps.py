"""A barrier waits for some tenths of a second of work, whatever a row costs, on a fake clock.

The real ends of local channels and the real input of a task; senders that always have more rows.
"""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.limits import QUEUED_S
from penstock.contract.ids import ChannelId, Epoch, Ordinal, StageIndex, TaskId, Term, Version
from penstock.model.elements import Barrier, BarrierKind, Data
from penstock.protocol.channel.flow_control import ReceiveChannel, SendChannel
from penstock.transport.batches import measure
from penstock.transport.input import TaskInput, Wakeup
from penstock.transport.output import LocalCreditCarrier, LocalOutput

MIB = 1 << 20
TASK = TaskId(StageIndex(1), Ordinal(0), 0)
ROWS = 20_000  # of the largest batch that a sender offers
WIDE = pa.array([b"x" * 84] * ROWS, pa.binary(84))
FIRST_ROWS = 1600  # of all senders; so much may wait before the cost of a row is known


def barrier(epoch: int) -> Barrier:
    return Barrier(Term(1), Epoch(epoch), Version(1), BarrierKind.CHECKPOINT, Epoch(0), 0)


@dataclass
class Flow:
    """Senders that never end, and a task that needs ``row_s`` for a row and ``call_s`` for a call."""

    senders: int
    row_s: float
    call_s: float
    now: float = 0.0
    rows: list[int] = field(default_factory=list)  # the next row of each sender
    taken: list[int] = field(default_factory=list)
    blocked: set[ChannelId] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.task = TaskInput(TASK, Wakeup())
        self.rows, self.taken = [0] * self.senders, [0] * self.senders
        names = [ChannelId(0, TaskId(StageIndex(0), Ordinal(n), 0), TASK) for n in range(self.senders)]
        ends = [self.task.add(ReceiveChannel(n, 8 * MIB, 4 * MIB, Version(1)), None) for n in names]
        self.outputs = [LocalOutput(SendChannel(MIB, 0.0, Version(1)), Wakeup(), e) for e in ends]
        for end, output in zip(ends, self.outputs, strict=True):
            end.begin(LocalCreditCarrier(output))

    def fill(self) -> None:
        """Let every sender offer batches until it is refused."""
        for number, output in enumerate(self.outputs):
            while True:
                count = min(max(output.window // 200, 1), ROWS)  # one read: half a window
                first = self.rows[number]
                ids = pa.array(np.arange(first, first + count))
                mine = pa.array(np.full(count, number))
                columns = [ids, mine, WIDE.slice(0, count)]
                batch = pa.record_batch(columns, names=["id", "sender", "x"])
                if not output.try_send(Data(batch, count, measure(batch))):
                    break
                self.rows[number] += count

    def take(self) -> None:
        """Take once, and let the time pass that the steps need."""
        got = self.task.poll(lambda c: c not in self.blocked, lambda _: True)
        assert got is not None, "the task has no rows although its senders have some"
        channel, element = got
        if isinstance(element, Barrier):
            self.blocked.add(channel)
            return
        assert isinstance(element, Data)
        ids, senders = (element.payload[name].to_numpy() for name in ("id", "sender"))
        for number in np.unique(senders):
            mine, since = ids[senders == number], self.taken[number]
            self.taken[number] += len(mine)
            assert np.array_equal(mine, np.arange(since, since + len(mine))), "rows are lost, repeated or early"
        took = self.call_s + element.rows * self.row_s
        self.now += took
        self.task.worked(element, took, 0.0, self.now)

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.fill()
            self.take()

    def epoch(self, number: int) -> float:
        """Put a barrier on all channels; return how long it takes until all have come."""
        since = self.now
        for output in self.outputs:
            output.put(barrier(number))
        while len(self.blocked) < self.senders:
            self.fill()
            self.take()
        self.blocked.clear()
        return self.now - since


@settings(max_examples=12)
@given(
    st.integers(1, 6),
    st.sampled_from([3e-5, 2e-4, 1e-3, 1e-2]),
    st.sampled_from([0.0, 1e-4, 0.02]),
)
def test_a_barrier_waits_for_a_second_of_work_at_most_and_every_row_comes_once(
    senders: int, row_s: float, call_s: float
) -> None:
    flow = Flow(senders, row_s, call_s)
    flow.run(max(2.0, FIRST_ROWS * row_s))
    slice_s = max(0.1, 5 * call_s, row_s)
    # In front of a barrier: a window, which may be a quarter too large, half of it in the buffer,
    # half of it offered last, and the slice that is worked on.
    bound = max(2.5 * QUEUED_S + 0.2, 2 * senders * (0.01 + 3 * row_s), 2 * slice_s) + 2 * slice_s
    for number in range(1, 4):
        assert flow.epoch(number) <= bound
        flow.run(0.7)


@settings(max_examples=8)
@given(st.integers(1, 4), st.sampled_from([3e-6, 3e-5]), st.sampled_from([30, 100]))
def test_a_step_that_gets_slower_delays_two_epochs_at_most(senders: int, row_s: float, factor: int) -> None:
    flow = Flow(senders, row_s, 0.0)
    flow.run(2.0)
    flow.row_s *= factor
    flow.epoch(1)
    flow.epoch(2)
    assert flow.epoch(3) <= 1.2
    flow.row_s /= factor
    flow.run(2.0)
    assert flow.epoch(4) <= 1.2
