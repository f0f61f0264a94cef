"""What a task takes: one element at a time, in turn, small batches joined."""

import pyarrow as pa

from penstock.base.limits import JOINED_BYTES_MAX
from penstock.contract.ids import ChannelId, Ordinal, StageIndex, TaskId, Version
from penstock.model.elements import Data, Watermark
from penstock.protocol.channel import ReceiveChannel
from penstock.transport.batches import measure
from penstock.transport.input import InputChannel, TaskInput
from penstock.transport.wakeup import Wakeup

RECEIVER = TaskId(StageIndex(1), Ordinal(0), 0)
MIB = 1 << 20


class Told:
    """Hears what is owed, and brings it at once."""

    def owe(self, channel: InputChannel, urgent: bool) -> None:
        channel.credit()


def two_channels() -> tuple[TaskInput, Wakeup, list[InputChannel]]:
    wakeup = Wakeup()
    task = TaskInput(RECEIVER, wakeup)
    channels = []
    for worker in (0, 1):
        name = ChannelId(0, TaskId(StageIndex(0), Ordinal(worker), 0), RECEIVER)
        channel = task.add(ReceiveChannel(name, 8 * MIB, 4 * MIB, Version(1)), None)
        channel.tell(Told())
        channels.append(channel)
    return task, wakeup, channels


def words(text: str, ts: int | None = None) -> Data[pa.RecordBatch]:
    batch = pa.record_batch([[text]], names=["w"])
    return Data(batch, 1, measure(batch), ts, ts)


def poll(task: TaskInput) -> object:
    got = task.poll(lambda _: True)
    return None if got is None else got[1]


def test_channels_take_turns_and_an_arrival_wakes_the_task() -> None:
    task, wakeup, (first, second) = two_channels()
    assert poll(task) is None
    assert not wakeup.wait(0)
    marks = [Watermark(n) for n in range(4)]
    first.push(1, marks[0])
    first.push(2, marks[1])
    second.push(1, marks[2])
    second.push(2, marks[3])
    assert wakeup.wait(0)
    assert [poll(task) for _ in range(5)] == [marks[0], marks[2], marks[1], marks[3], None]


def test_small_batches_that_wait_are_taken_as_one_but_never_past_another_element() -> None:
    task, _, (first, _) = two_channels()
    parts = [words("a", 5), words("b", 3), words("c", 9)]
    elements: list[Data[pa.RecordBatch] | Watermark] = [*parts[:2], Watermark(1), parts[2]]
    for sequence, element in enumerate(elements, 1):
        first.push(sequence, element)
    joined = poll(task)
    assert isinstance(joined, Data)
    assert joined.payload.column(0).to_pylist() == ["a", "b"]
    assert (joined.rows, joined.min_ts, joined.max_ts) == (2, 3, 5)
    assert joined.charge == parts[0].charge + parts[1].charge
    assert [poll(task), poll(task), poll(task)] == [Watermark(1), parts[2], None]
    assert first.state.queued_bytes == 0


def test_large_batches_are_not_joined() -> None:
    task, _, (first, _) = two_channels()
    large = words("x" * (JOINED_BYTES_MAX // 2))
    first.push(1, large)
    first.push(2, large)
    assert poll(task) is large
    assert poll(task) is large


def test_a_detached_channel_takes_nothing_more_and_gives_nothing() -> None:
    task, _, (first, second) = two_channels()
    first.push(1, Watermark(1))
    task.detach(first.channel)
    assert not first.push(2, Watermark(2))
    second.push(1, Watermark(3))
    assert poll(task) == Watermark(3)
    assert poll(task) is None
