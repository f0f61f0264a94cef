"""What a task takes: one element at a time, in turn, small batches joined."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError
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


def channel_from(worker: int, edge: int = 0) -> ChannelId:
    return ChannelId(edge, TaskId(StageIndex(0), Ordinal(worker), 0), RECEIVER)


def two_channels(edges: tuple[int, int] = (0, 0)) -> tuple[TaskInput, Wakeup, list[InputChannel]]:
    wakeup = Wakeup()
    task = TaskInput(RECEIVER, wakeup)
    channels = []
    for worker, edge in enumerate(edges):
        name = channel_from(worker, edge)
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


def polled_across(task: TaskInput, reads: Callable[[ChannelId], bool]) -> tuple[ChannelId, object]:
    """Take across channels; rows as the texts of their words."""
    got = task.poll(reads, across=True)
    assert got is not None
    channel, element = got
    return channel, text_of(element) if isinstance(element, Data) else element


def text_of(data: Data[pa.RecordBatch]) -> str:
    return "".join(data.payload.column(0).to_pylist())


def always(_: ChannelId) -> bool:
    return True


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


def test_batches_at_the_heads_of_several_channels_are_taken_as_one_each_in_its_order() -> None:
    task, _, (first, second) = two_channels()
    given: list[tuple[InputChannel, Data[pa.RecordBatch] | Watermark]] = [
        (first, words("a", 5)),
        (second, words("x", 2)),
        (first, words("b", 3)),
        (second, words("y", 9)),
        (second, Watermark(7)),
        (second, words("z")),
    ]
    taken = {first: 0, second: 0}
    for channel, element in given:
        taken[channel] += 1
        channel.push(taken[channel], element)
    got = task.poll(always, across=True)
    assert got is not None
    assert isinstance(got[1], Data)
    assert (got[0], text_of(got[1])) == (first.channel, "abxy")
    assert (got[1].rows, got[1].min_ts, got[1].max_ts) == (4, 2, 9)
    assert polled_across(task, always) == (second.channel, Watermark(7))
    assert polled_across(task, always) == (second.channel, "z")
    assert first.state.queued_bytes == second.state.queued_bytes == 0
    assert task.empty


def test_a_channel_that_is_held_stays_where_it_is() -> None:
    task, _, (first, second) = two_channels()
    first.push(1, words("a"))
    second.push(1, words("x"))
    assert polled_across(task, first.channel.__eq__) == (first.channel, "a")
    assert polled_across(task, second.channel.__eq__) == (second.channel, "x")


def test_edges_are_not_joined_nor_more_than_may_be() -> None:
    task, _, (first, second) = two_channels(edges=(0, 1))
    first.push(1, words("a"))
    second.push(1, words("x"))
    assert [polled_across(task, always)[1] for _ in range(2)] == ["a", "x"]
    half = "h" * (JOINED_BYTES_MAX // 2)
    task, _, (first, second) = two_channels()
    for channel in (first, second):
        channel.push(1, words(half))
        channel.push(2, words("s"))
    assert [polled_across(task, always)[1] for _ in range(2)] == [half + "s", half + "s"]


def test_a_channel_that_is_gone_gives_nothing_to_others() -> None:
    task, _, (first, second) = two_channels()
    first.push(1, words("a"))
    second.push(1, words("x"))
    task.detach(second.channel)
    assert polled_across(task, always) == (first.channel, "a")
    assert task.empty


def test_rows_of_here_and_of_elsewhere_are_joined_though_their_notes_differ() -> None:
    task, _, (first, second) = two_channels()
    field = pa.field("w", pa.string(), nullable=False)
    strict = pa.record_batch([pa.array(["x"])], schema=pa.schema([field]))
    first.push(1, words("a"))
    second.push(1, Data(strict, 1, measure(strict), None, None))
    assert polled_across(task, always) == (first.channel, "ax")
    number = pa.record_batch([[1]], names=["w"])
    first.push(2, words("b"))
    second.push(2, Data(number, 1, measure(number), None, None))
    with pytest.raises(ConfigError, match=r"rows of \[w: int64\] on an edge of \[w: string\]"):
        task.poll(always, across=True)


def test_a_detached_channel_takes_nothing_more_and_gives_nothing() -> None:
    task, _, (first, second) = two_channels()
    first.push(1, Watermark(1))
    task.detach(first.channel)
    assert not first.push(2, Watermark(2))
    second.push(1, Watermark(3))
    assert poll(task) == Watermark(3)
    assert poll(task) is None
