"""What a task takes: one element at a time, in turn, small batches joined."""

from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError
from penstock.base.limits import (
    CREDIT_FIRST_BYTES,
    ELEMENT_FIXED_CHARGE_BYTES,
    JOINED_BYTES_MAX,
)
from penstock.contract.ids import ChannelId, Ordinal, StageIndex, TaskId, Version
from penstock.model.elements import Data, Watermark
from penstock.protocol.channel.flow_control import ReceiveChannel
from penstock.transport.batches import measure
from penstock.transport.input import InputChannel, TaskInput, Wakeup

RECEIVER = TaskId(StageIndex(1), Ordinal(0), 0)
MIB = 1 << 20


class Told:
    """Hears what is owed, and brings it at once."""

    def __init__(self) -> None:
        self.channels: list[ChannelId] = []

    def owe(self, channel: InputChannel, urgent: bool) -> None:
        self.channels.append(channel.channel)
        channel.credit()


def channel_from(worker: int, edge: int = 0) -> ChannelId:
    return ChannelId(edge, TaskId(StageIndex(0), Ordinal(worker), 0), RECEIVER)


def channels(*edges: int) -> tuple[TaskInput, Wakeup, list[InputChannel]]:
    wakeup = Wakeup()
    task = TaskInput(RECEIVER, wakeup)
    made = []
    for worker, edge in enumerate(edges):
        name = channel_from(worker, edge)
        made.append(task.add(ReceiveChannel(name, 8 * MIB, 4 * MIB, Version(1)), None))
    for channel in made:
        channel.begin(Told())
    return task, wakeup, made


def words(text: str, ts: int | None = None) -> Data[pa.RecordBatch]:
    batch = pa.record_batch([[text]], names=["w"])
    return Data(batch, 1, measure(batch), ts, ts)


def poll(task: TaskInput) -> object:
    got = task.poll(lambda _: True, lambda _: False)
    return None if got is None else got[1]


def polled_across(
    task: TaskInput,
    reads: Callable[[ChannelId], bool] = lambda _: True,
    joins: Callable[[ChannelId], bool] = lambda _: True,
) -> tuple[ChannelId, object]:
    """Take across channels; rows as the texts of their words."""
    got = task.poll(reads, joins)
    assert got is not None
    channel, element = got
    return channel, text_of(element) if isinstance(element, Data) else element


def text_of(data: Data[pa.RecordBatch]) -> str:
    return "".join(data.payload.column(0).to_pylist())


def test_channels_take_turns_and_an_arrival_wakes_the_task() -> None:
    task, wakeup, (first, second) = channels(0, 0)
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
    task, _, (first, _) = channels(0, 0)
    parts = [words("a", 5), words("b", 3), words("c", 9)]
    elements: list[Data[pa.RecordBatch] | Watermark] = [*parts[:2], Watermark(1), parts[2]]
    for sequence, element in enumerate(elements, 1):
        first.push(sequence, element)
    joined = poll(task)
    assert isinstance(joined, Data)
    assert joined.payload.column(0).to_pylist() == ["a", "b"]
    assert (joined.rows, joined.min_ts, joined.max_ts) == (2, 3, 5)
    assert joined.charge == parts[0].charge + parts[1].charge - ELEMENT_FIXED_CHARGE_BYTES
    assert [poll(task), poll(task), poll(task)] == [Watermark(1), parts[2], None]
    assert first.state.queued_bytes == 0


def work_fast(task: TaskInput) -> None:
    """Let the steps take rows of a KiB in no time, until the windows are as large as can be."""
    for turn in range(20):
        task.worked(Data(words("x").payload, 100_000, 100_000 << 10), 0.01, 0.0, turn * 1.0)


def test_large_batches_are_not_joined() -> None:
    task, _, (first, _) = channels(0, 0)
    work_fast(task)
    large = words("x" * (JOINED_BYTES_MAX // 2))
    first.push(1, large)
    first.push(2, large)
    assert poll(task) is large
    assert poll(task) is large


def fill(*given: tuple[InputChannel, Data[pa.RecordBatch] | Watermark]) -> None:
    """Push elements, of each channel from its first."""
    counts: Counter[InputChannel] = Counter()
    for channel, element in given:
        counts[channel] += 1
        channel.push(counts[channel], element)


def test_batches_at_the_heads_of_several_channels_are_taken_as_one_each_in_its_order() -> None:
    task, _, (first, second) = channels(0, 0)
    fill(
        (first, words("a", 5)),
        (second, words("x", 2)),
        (first, words("b", 3)),
        (second, words("y", 9)),
        (second, Watermark(7)),
        (second, words("z")),
    )
    got = task.poll(lambda _: True, lambda _: True)
    assert got is not None
    assert isinstance(got[1], Data)
    assert (got[0], text_of(got[1])) == (first.channel, "abxy")
    assert (got[1].rows, got[1].min_ts, got[1].max_ts) == (4, 2, 9)
    assert polled_across(task) == (second.channel, Watermark(7))
    assert polled_across(task) == (second.channel, "z")
    assert first.state.queued_bytes == second.state.queued_bytes == 0
    assert task.empty


def test_every_channel_whose_rows_were_taken_owes_its_sender_credit() -> None:
    task, _, (first, second) = channels(0, 0)
    line = Told()
    for channel in (first, second):
        channel.begin(line)
    line.channels.clear()
    fill((first, words("a")), (second, words("x")))
    assert polled_across(task) == (first.channel, "ax")
    assert line.channels == [first.channel, second.channel]


def test_a_channel_that_may_not_be_read_or_joined_keeps_its_turn() -> None:
    task, _, (first, second, third) = channels(0, 0, 0)
    fill((first, words("a")), (second, words("x")), (third, words("p")))
    not_second = second.channel.__ne__
    assert polled_across(task, reads=not_second) == (first.channel, "ap")
    assert polled_across(task) == (second.channel, "x")
    task, _, (first, second, third) = channels(0, 0, 0)
    fill((first, words("a")), (second, words("x")), (third, words("p")), (first, Watermark(1)))
    assert polled_across(task, joins=not_second) == (first.channel, "ap")
    assert polled_across(task) == (second.channel, "x")
    assert polled_across(task) == (first.channel, Watermark(1))


def test_batches_of_different_edges_are_not_joined() -> None:
    task, _, (first, second) = channels(0, 1)
    fill((first, words("a")), (second, words("x")))
    assert [polled_across(task)[1] for _ in range(2)] == ["a", "x"]


def test_no_more_is_joined_than_may_be_together() -> None:
    third_of = "h" * (JOINED_BYTES_MAX // 3)
    task, _, (first, second, third) = channels(0, 0, 0)
    work_fast(task)
    fill(*((channel, words(third_of)) for channel in (first, second, third)))
    second.push(2, words(third_of))
    taken = [str(polled_across(task)[1]) for _ in range(2)]
    assert [len(text) // len(third_of) for text in taken] == [2, 2]
    assert task.empty


def test_dictionaries_of_several_senders_stay_apart() -> None:
    task, _, (first, second) = channels(0, 0)
    for channel, name in ((first, "a"), (second, "x")):
        values = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), [f"{name}{number}" for number in range(100)])
        batch = pa.record_batch([values], names=["w"])
        fill((channel, Data(batch, 1, measure(batch), None, None)))
    assert [polled_across(task)[1] for _ in range(2)] == ["a0", "x0"]


def test_a_channel_that_is_gone_gives_nothing_to_others() -> None:
    task, _, (first, second) = channels(0, 0)
    fill((first, words("a")), (second, words("x")))
    task.detach(second.channel)
    assert polled_across(task) == (first.channel, "a")
    assert task.empty


def test_local_and_remote_rows_are_joined_although_nullability_differs() -> None:
    task, _, (first, second) = channels(0, 0)
    field = pa.field("w", pa.string(), nullable=False)
    strict = pa.record_batch([pa.array(["x"])], schema=pa.schema([field]))
    fill((first, words("a")), (second, Data(strict, 1, measure(strict), None, None)))
    assert polled_across(task) == (first.channel, "ax")
    number = pa.record_batch([[1]], names=["w"])
    first.push(2, words("b"))
    second.push(2, Data(number, 1, measure(number), None, None))
    with pytest.raises(ConfigError, match=r"\[w: int64\] on an edge with rows of \[w: string\]"):
        polled_across(task)


def test_a_detached_channel_takes_nothing_more_and_gives_nothing() -> None:
    task, _, (first, second) = channels(0, 0)
    first.push(1, Watermark(1))
    task.detach(first.channel)
    assert not first.push(2, Watermark(2))
    second.push(1, Watermark(3))
    assert poll(task) == Watermark(3)
    assert poll(task) is None


# --- Slow steps ----------------------------------------------------------------------------------


def letters(count: int, ts: int | None = None) -> Data[pa.RecordBatch]:
    batch = pa.record_batch([[chr(97 + n % 26) for n in range(count)]], names=["w"])
    return Data(batch, count, measure(batch), ts, ts)


def work_slowly(task: TaskInput, row_s: float, since: float = 0.0) -> None:
    """Let the steps take ``row_s`` seconds for each row of 100 bytes, for some seconds."""
    for turn in range(30):
        rows = max(int(0.1 / row_s), 1)
        given = Data(words("x").payload, rows, rows * 100)
        task.worked(given, rows * row_s, 0.0, since + turn * 0.1)


def test_of_a_large_batch_a_slow_task_takes_slices_and_the_barrier_stays_behind_them() -> None:
    task, _, (first, second) = channels(0, 0)
    work_slowly(task, 0.01)
    whole = letters(25, 7)
    fill((first, whole), (first, Watermark(1)), (second, letters(3)))
    taken: list[str] = []
    while not isinstance(text := polled_across(task)[1], Watermark):
        taken.append(str(text))
    assert [len(text) for text in taken] == [10, 10, 8], "a tenth of a second of work each"
    assert sorted("".join(taken)) == sorted("abc" + "abcdefghijklmnopqrstuvwxy")
    assert first.state.queued_bytes == second.state.queued_bytes == 0
    assert task.empty


def test_slices_of_one_channel_stay_in_order_and_let_others_have_their_turns() -> None:
    task, _, (first, second) = channels(0, 0)
    work_slowly(task, 0.02)
    fill((first, letters(12)), (second, letters(12)))
    alone = [polled_across(task, joins=lambda _: False) for _ in range(6)]
    for channel in (first, second):
        mine = [str(text) for name, text in alone if name == channel.channel]
        assert mine == ["abcde", "fghij", "kl"]
    assert [name for name, _ in alone] == [first.channel, second.channel] * 3


def test_a_slice_is_not_copied() -> None:
    task, _, (first, _) = channels(0, 0)
    work_slowly(task, 0.01)
    whole = letters(25)
    first.push(1, whole)
    part = poll(task)
    assert isinstance(part, Data)
    assert part.payload.column(0).buffers()[2].address == whole.payload.column(0).buffers()[2].address


def test_the_windows_of_a_slow_task_are_small_and_grow_again_when_it_is_fast() -> None:
    task, _, made = channels(0, 0)
    assert sum(channel.state.window for channel in made) <= CREDIT_FIRST_BYTES
    work_slowly(task, 0.001)
    assert all(channel.state.window <= 1000 * 100 for channel in made)
    for channel in made:
        channel.push(1, words("x"))  # they bring rows: they share
    for turn in range(20):
        given = Data(words("x").payload, 100_000, 100_000 << 10)
        task.worked(given, 0.01, 0.0, 10.0 + turn)
    assert [channel.state.window for channel in made] == [8 * MIB, 8 * MIB]


def test_time_spent_waiting_for_credit_makes_slices_small() -> None:
    task, _, (first, _) = channels(0, 0)
    for turn in range(30):
        task.worked(Data(words("x").payload, 10, 1000), 0.1, 0.0999, turn * 0.1)
    first.push(1, letters(26))
    part = poll(task)
    assert isinstance(part, Data)
    assert part.rows == 10


def test_a_sender_hears_of_a_smaller_window_though_its_rows_are_not_taken() -> None:
    task, _, (first, _) = channels(0, 0)
    work_fast(task)
    line = Told()
    first.begin(line)
    first.push(1, letters(20))
    line.channels.clear()
    work_slowly(task, 0.01, since=100.0)
    assert line.channels.count(first.channel) >= 1


def test_a_version_that_was_announced_never_goes_back() -> None:
    task, _, (first,) = channels(0)
    for version in (2, 1):
        task.announce(Version(version))
    assert first.credit().version == 2


def test_a_channel_that_ends_keeps_no_rows() -> None:
    task, _, (first, second) = channels(0, 0)
    for channel in (first, second):
        channel.push(1, words("a"))
    task.detach(first.channel)
    assert not first.queue
    assert not first.push(2, words("b"))
    assert polled_across(task) == (second.channel, "a")
    assert poll(task) is None
