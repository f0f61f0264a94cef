"""The two ends of a channel: when elements leave, what is granted, what is refused."""

import copy

import pytest

from penstock.base.errors import PeerError
from penstock.base.limits import (
    CREDIT_FIRST_CHANNEL_BYTES_MIN,
    ELEMENT_BYTES_MAX,
    ELEMENT_FIXED_CHARGE_BYTES,
)
from penstock.contract.ids import ChannelId, Epoch, Ordinal, StageIndex, TaskId, Term, Version
from penstock.model.elements import (
    Barrier,
    BarrierKind,
    Credit,
    Data,
    EndOfStream,
    Idle,
    LatencyMarker,
    Watermark,
)
from penstock.protocol.channel.flow_control import (
    Fill,
    Outgoing,
    Owed,
    ReceiveChannel,
    SendChannel,
    cut,
)

SENDER = TaskId(StageIndex(0), Ordinal(0), 0)
CHANNEL = ChannelId(0, SENDER, TaskId(StageIndex(1), Ordinal(1), 0))
BARRIER = Barrier(Term(1), Epoch(7), Version(1), BarrierKind.CHECKPOINT, Epoch(6), 0)
MARKER = LatencyMarker(SENDER, 5)
FIXED = ELEMENT_FIXED_CHARGE_BYTES


def data(name: str, size: int = 1000) -> Data[str]:
    return Data(name, rows=1, charge=size + FIXED)


def credit(granted: int, received: int = 0, version: int = 1, window: int = 1 << 24) -> Credit:
    return Credit(CHANNEL, granted, received, Version(version), window)


def sender(buffer_bytes: int = 1 << 20, flush_interval_s: float = 0.0) -> SendChannel[str]:
    """A channel that was accepted and has endless credit."""
    channel = SendChannel[str](buffer_bytes, flush_interval_s, Version(1))
    channel.accept()
    channel.on_credit(credit(1 << 40))
    return channel


def leave(channel: SendChannel[str], now: float = 0.0) -> list[object]:
    """Take all elements that may leave: payloads of a fill as a tuple, controls as they are."""
    out: list[object] = []
    while (outgoing := channel.take(now)) is not None:
        item = outgoing.element
        out.append(tuple(p.payload for p in item.parts) if isinstance(item, Fill) else item)
    return out


def test_a_batch_passes_where_nothing_waits_and_counts_as_one_that_left() -> None:
    channel = SendChannel[str](1 << 20, 1.0, Version(1))
    assert channel.passes(data("a")) is None, "not accepted yet"
    channel.accept()
    channel.on_credit(credit(2 * (1000 + FIXED)))
    assert [channel.passes(data("a")), channel.passes(data("b"))] == [1, 2]
    assert (channel.credit, channel.waiting_bytes) == (0, 0)
    assert channel.passes(data("c")) is None, "no credit is left"
    channel.on_credit(credit(1 << 20))
    channel.put(BARRIER)
    assert channel.passes(data("c")) is None, "it would overtake the barrier"
    assert leave(channel) == [BARRIER]
    assert channel.offer(data("c"), 0)
    assert channel.passes(data("d")) is None, "it would overtake the rows before it"


def test_elements_leave_in_order_and_are_numbered_from_one() -> None:
    channel = sender()
    channel.offer(data("a"), 0)
    channel.put(BARRIER)
    channel.offer(data("b"), 0)
    taken = [channel.take(0), channel.take(0), channel.take(0), channel.take(0)]
    assert taken == [
        Outgoing(1, Fill((data("a"),), 1000 + FIXED)),
        Outgoing(2, BARRIER),
        Outgoing(3, Fill((data("b"),), 1000 + FIXED)),
        None,
    ]


def test_batches_share_a_fill_until_the_deadline_of_the_first() -> None:
    channel = sender(flush_interval_s=5.0)
    channel.offer(data("a"), 10.0)
    channel.offer(data("b"), 12.0)
    assert channel.wakes_at() == 15.0
    assert leave(channel, 14.9) == []
    assert leave(channel, 15.0) == [("a", "b")]
    assert channel.wakes_at() is None


def test_a_fill_counts_the_fixed_cost_once() -> None:
    channel = sender(flush_interval_s=5.0)
    channel.offer(data("a", 100), 0)
    channel.offer(data("b", 200), 0)
    channel.flush()
    outgoing = channel.take(0)
    assert outgoing is not None
    assert isinstance(outgoing.element, Fill)
    assert outgoing.element.charge == 300 + FIXED
    assert channel.waiting_bytes == 0


def test_a_fill_is_closed_before_it_outgrows_the_buffer() -> None:
    channel = sender(buffer_bytes=6200, flush_interval_s=5.0)
    for name in "abcde":
        assert channel.offer(data(name), 0)
    assert leave(channel, 0) == [("a", "b", "c", "d")]
    assert leave(channel, 5.0) == [("e",)]


def test_a_batch_that_is_large_by_itself_is_not_joined_and_keeps_its_place() -> None:
    channel = sender(buffer_bytes=8000, flush_interval_s=5.0)
    channel.offer(data("small", 100), 0)
    channel.offer(data("large", 2000 - FIXED), 0)
    channel.offer(data("next", 100), 0)
    assert leave(channel, 0) == [("small",), ("large",)]
    assert leave(channel, 5.0) == [("next",)]


def test_a_full_channel_refuses_data_and_changes_nothing() -> None:
    channel = sender(buffer_bytes=2000, flush_interval_s=5.0)
    channel.offer(data("a"), 0)
    channel.offer(data("b"), 0)
    assert not channel.offer(data("c"), 0)
    assert not channel.offer_marker(MARKER)
    assert leave(channel, 9.0) == [("a",), ("b",)]
    assert channel.offer(data("c"), 9.0)


def test_nothing_leaves_before_the_handshake_is_accepted() -> None:
    channel = SendChannel[str](1 << 20, 0.0, Version(1))
    channel.on_credit(credit(1 << 40))
    channel.put(Idle())
    assert channel.take(0) is None
    channel.accept()
    assert channel.take(0) is not None


def test_data_waits_for_credit_and_control_behind_it_waits_too() -> None:
    channel = SendChannel[str](1 << 20, 0.0, Version(1))
    channel.accept()
    channel.on_credit(credit(1000 + FIXED))
    channel.offer(data("a"), 0)
    channel.offer(data("b"), 0)
    channel.put(BARRIER)
    assert leave(channel) == [("a",)]
    channel.on_credit(credit(2000 + 2 * FIXED))
    assert leave(channel) == [("b",), BARRIER]


def test_an_element_larger_than_the_window_leaves_when_nothing_is_outstanding() -> None:
    channel = SendChannel[str](1 << 20, 0.0, Version(1))
    channel.accept()
    channel.on_credit(credit(2000))
    channel.offer(data("a"), 0)
    channel.offer(data("huge", 9_000), 0)
    channel.offer(data("b"), 0)
    assert leave(channel) == [("a",)]
    channel.on_credit(credit(2000 + 1000 + FIXED, received=1))
    assert leave(channel) == [("huge",)]
    assert channel.credit < 0


def test_control_elements_need_no_credit() -> None:
    channel = SendChannel[str](1 << 20, 0.0, Version(1))
    channel.accept()
    channel.put(Watermark(1))
    channel.put(BARRIER)
    channel.put(EndOfStream())
    assert leave(channel) == [Watermark(1), BARRIER, EndOfStream()]
    assert channel.ended
    assert channel.drained


def test_unsent_watermarks_coalesce() -> None:
    channel = sender()
    channel.put(Watermark(1))
    channel.put(Watermark(2))
    assert leave(channel) == [Watermark(2)]


def test_a_watermark_waits_behind_the_open_fill_and_never_overtakes_it() -> None:
    channel = sender(flush_interval_s=5.0)
    channel.put(Watermark(1))
    channel.offer(data("a"), 0)
    channel.put(Watermark(2))
    channel.offer(data("b"), 0)
    channel.put(Watermark(3))
    assert leave(channel, 0) == [Watermark(1)]
    assert leave(channel, 5.0) == [("a", "b"), Watermark(3)]


def test_pending_watermarks_are_flushed_before_a_barrier() -> None:
    channel = sender(flush_interval_s=5.0)
    channel.offer(data("a"), 0)
    channel.put(Watermark(2))
    channel.put(BARRIER)
    assert leave(channel, 0) == [("a",), Watermark(2), BARRIER]


def test_a_latency_marker_travels_behind_the_rows_before_it() -> None:
    channel = sender(flush_interval_s=5.0)
    channel.offer(data("a"), 0)
    assert channel.offer_marker(MARKER)
    channel.put(Watermark(2))
    assert leave(channel, 5.0) == [("a",), MARKER, Watermark(2)]


def test_credit_is_cumulative_and_an_old_one_takes_nothing_back() -> None:
    channel = SendChannel[str](1 << 20, 0.0, Version(1))
    channel.on_credit(credit(500, version=2))
    channel.on_credit(credit(400, version=1))
    assert channel.credit == 500
    assert channel.receiver_version == 2


def test_credit_for_elements_never_sent_is_refused() -> None:
    with pytest.raises(PeerError, match=r"took 3 elements, but only 0 were sent"):
        sender().on_credit(credit(1, received=3))


def test_an_element_after_the_end_is_a_bug_of_the_task() -> None:
    channel = sender()
    channel.put(EndOfStream())
    with pytest.raises(AssertionError, match="after the end"):
        channel.offer(data("late"), 0)
    with pytest.raises(AssertionError, match="not split"):
        sender().offer(data("monster", ELEMENT_BYTES_MAX + 1), 0)


def test_a_channel_can_be_copied_for_a_search_of_states() -> None:
    channel = sender(flush_interval_s=5.0)
    channel.offer(data("a"), 0)
    twin = copy.deepcopy(channel)
    assert leave(channel, 9.0) == leave(twin, 9.0) == [("a",)]


# --- Receiver ------------------------------------------------------------------------------------


def receiver(high: int = 1000, low: int = 400) -> ReceiveChannel:
    return ReceiveChannel(CHANNEL, high, low, Version(1))


def granted(amount: int, received: int = 0, version: int = 1, window: int = 1000) -> Credit:
    return credit(amount, received, version, window)


def test_the_first_credit_is_the_whole_window_and_owed_at_once() -> None:
    channel = receiver()
    assert channel.owed() is Owed.NOW
    assert channel.credit() == granted(1000)
    assert channel.owed() is Owed.NOTHING


@pytest.mark.parametrize("sequence", [0, 2, 9])
def test_a_gap_or_repetition_is_refused(sequence: int) -> None:
    with pytest.raises(PeerError, match=f"element {sequence} came after 0"):
        receiver().on_element(sequence)


def test_nothing_follows_the_end_of_the_stream() -> None:
    channel = receiver()
    channel.on_element(1, end=True)
    assert channel.ended
    with pytest.raises(PeerError, match="follows the end"):
        channel.on_element(2)


def test_data_beyond_the_credit_is_refused_unless_the_queue_is_empty() -> None:
    channel = receiver()
    channel.credit()
    channel.on_element(1, 5000)
    with pytest.raises(PeerError, match="exceed the credit by 4001"):
        channel.on_element(2, 1)


def test_above_the_high_watermark_nothing_is_granted_until_the_low_one() -> None:
    channel = receiver()
    channel.credit()
    for sequence in range(1, 6):
        channel.on_element(sequence, 200)
    channel.on_take(200)
    channel.on_take(200)
    assert channel.credit() == granted(1000, received=2)
    channel.on_take(200)
    assert channel.owed() is Owed.NOW
    assert channel.credit() == granted(1600, received=3)


def test_small_grants_may_wait_but_are_owed() -> None:
    channel = receiver()
    channel.credit()
    channel.on_element(1, 100)
    assert channel.owed() is Owed.NOTHING
    channel.on_take(100)
    assert channel.owed() is Owed.SOON
    assert channel.credit() == granted(1100, received=1)


def test_a_taken_control_element_is_owed_too() -> None:
    channel = receiver()
    channel.credit()
    channel.on_element(1)
    channel.on_take()
    assert channel.owed() is Owed.SOON


def test_a_new_version_is_announced_at_once() -> None:
    channel = receiver()
    channel.credit()
    channel.version = Version(2)
    assert channel.owed() is Owed.NOW
    assert channel.credit() == granted(1000, version=2)


def test_small_grants_wait_while_more_is_queued() -> None:
    channel = receiver()
    channel.credit()
    channel.on_element(1, 100)
    channel.on_element(2, 100)
    channel.on_take(100)
    assert channel.owed() is Owed.NOTHING
    channel.on_take(100)
    assert channel.owed() is Owed.SOON


def test_a_refused_task_is_worth_waking_when_half_of_the_buffer_is_free() -> None:
    channel = sender(buffer_bytes=3 * (1000 + FIXED))
    for name in "abc":
        channel.offer(data(name), 0)
    assert channel.full
    assert not channel.roomy
    channel.take(0)
    assert not channel.roomy
    channel.take(0)
    assert channel.roomy


# --- Windows that follow a pace ------------------------------------------------------------------


def test_a_smaller_window_bounds_the_buffer_and_the_pieces_of_the_sender() -> None:
    channel = sender(buffer_bytes=1 << 20)
    channel.on_credit(credit(1 << 40, window=4 * (1000 + FIXED)))
    assert channel.piece_bytes == 2 * (1000 + FIXED) + FIXED
    assert channel.offer(data("a"), 0)
    assert channel.offer(data("b"), 0)
    assert not channel.offer(data("c"), 0), "half a window waits"
    channel.on_credit(credit(1 << 40, window=1 << 24))
    assert channel.offer(data("c"), 0)


def test_before_the_first_credit_a_sender_keeps_little() -> None:
    channel = SendChannel[str](1 << 20, 0.0, Version(1))
    while channel.offer(data("a"), 0):
        pass
    assert channel.waiting_bytes <= CREDIT_FIRST_CHANNEL_BYTES_MIN // 2 + 1000 + FIXED


def test_a_window_that_shrinks_takes_nothing_back_and_grants_nothing_until_that_is_spent() -> None:
    channel = receiver()
    assert channel.credit() == granted(1000)
    for sequence in range(1, 5):
        channel.on_element(sequence, 200)
    assert channel.resize(300)
    assert channel.owed() is Owed.SOON, "the sender should cut less"
    assert channel.credit() == granted(1000, window=300)
    for _ in range(3):
        channel.on_take(200)
    assert channel.owed() is Owed.NOTHING
    channel.on_take(200)
    assert channel.credit() == granted(1100, received=4, window=300)


def test_a_window_that_grows_is_granted_at_once_and_never_above_the_high_watermark() -> None:
    channel = receiver()
    channel.begin(200)
    assert channel.credit() == granted(200, window=200)
    channel.on_element(1, 200)
    assert channel.owed() is Owed.NOTHING, "it is full"
    assert channel.resize(5000)
    assert channel.owed() is Owed.NOW
    assert channel.credit() == granted(1000)
    channel.begin(10)
    assert channel.window == 1000, "it begins once"


@pytest.mark.parametrize("window", [760, 1000, 1240])
def test_a_window_that_changes_by_a_quarter_at_most_stays(window: int) -> None:
    channel = receiver(high=4000, low=2000)
    channel.begin(1000)
    channel.credit()
    assert not channel.resize(window)
    assert channel.owed() is Owed.NOTHING


def test_slices_give_back_the_charge_of_their_element_and_count_it_once() -> None:
    channel = receiver()
    channel.credit()
    channel.on_element(1, 997)
    element = Data("abcdefg", rows=7, charge=997, min_ts=3, max_ts=9)
    spent, taken = [], ""
    for rows in (1, 2, 3):
        part, element = cut(element, rows, lambda text, start, count: text[start : start + count])
        channel.on_slice(part.charge)
        spent.append(part.charge)
        taken += part.payload
        assert (part.rows, part.min_ts, part.max_ts) == (rows, 3, 9)
        assert channel.credit().received == 0, "it is not taken before its last row"
    assert (taken, element.payload, element.rows) == ("abcdef", "g", 1)
    assert sum(spent) + element.charge == 997
    channel.on_take(element.charge)
    assert channel.queued_bytes == 0
    assert channel.credit() == granted(1997, received=1)


def test_a_channel_brings_rows_while_some_wait_and_half_a_second_longer() -> None:
    channel = receiver()
    channel.credit()
    assert not channel.brings_rows(5.0)
    channel.on_element(1, 100)
    assert channel.brings_rows(6.0)
    channel.on_take(100)
    assert channel.brings_rows(6.4)
    assert not channel.brings_rows(6.6)
    channel.on_element(2, 100)
    channel.on_take(100)
    assert channel.brings_rows(9.0), "they came since it was asked"


def test_a_prompt_channel_owes_word_of_every_element_that_is_taken() -> None:
    channel = ReceiveChannel(CHANNEL, 1000, 500, Version(1), prompt=True)
    channel.credit()
    for sequence in (1, 2):
        channel.on_element(sequence, 10)
    assert channel.owed() is Owed.NOTHING, "nothing was taken"
    channel.on_take(10)
    assert channel.owed() is Owed.NOW
    assert channel.credit().received == 1
    assert channel.owed() is Owed.NOTHING


def test_the_rows_that_no_task_has_taken_are_outstanding_wherever_they_wait() -> None:
    channel = sender(flush_interval_s=5.0)
    assert channel.outstanding_rows == 0
    channel.offer(Data("a", 3, FIXED), 0)
    channel.offer(Data("b", 4, FIXED), 0)
    assert channel.outstanding_rows == 7, "both wait for more rows"
    channel.flush()
    assert channel.take(0) is not None
    channel.put(BARRIER)
    assert channel.take(0) is not None
    assert channel.passes(Data("c", 5, FIXED)) == 3
    assert channel.outstanding_rows == 12, "both elements have left"
    channel.on_credit(credit(1 << 40, received=2))
    assert channel.outstanding_rows == 5, "the first element and the barrier were taken"
    channel.on_credit(credit(1 << 40, received=1))
    assert channel.outstanding_rows == 5, "older credit changes nothing"
    channel.on_credit(credit(1 << 40, received=3))
    assert channel.outstanding_rows == 0
