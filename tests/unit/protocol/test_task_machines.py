"""The small machines of a task, one rule each."""

from penstock.base.limits import HELD_BYTES_MIN, HELD_WINDOWS
from penstock.contract.ids import ChannelId, Ordinal, SplitId, StageIndex, TaskId, Version
from penstock.contract.keygroups import Range
from penstock.contract.manifest import GroupsTime, SplitState
from penstock.model.elements import Data, Watermark
from penstock.protocol.task.group_times import GroupTimes
from penstock.protocol.task.input_progress import OutputMarks, SourceSplits, WatermarkMerge
from penstock.protocol.task.rescale_buffer import BufferPhase, RescaleBuffer
from penstock.protocol.task.task_messages import RoutedRows, Send


def channel(worker: int) -> ChannelId:
    sender = TaskId(StageIndex(0), Ordinal(0), 0)
    return ChannelId(0, sender, TaskId(StageIndex(1), Ordinal(worker), 0))


def piece(old: int | None, new: int | None, text: str = "x") -> RoutedRows:
    places = [None if worker is None else channel(worker) for worker in (old, new)]
    return RoutedRows(places[0], places[1], Data(text, 1, 10))


def test_a_tasks_watermark_is_the_lowest_of_its_inputs_and_goes_back_only_for_loaded_groups() -> None:
    time = WatermarkMerge("ab", None)
    time.note("a", 9)
    lows = [time.low_us]
    time.note("b", 5)
    lows.append(time.low_us)
    reached = [time.task_us]  # the steps have not fired yet
    time.reach(5)
    time.restart()
    time.note("a", 3)
    time.note("b", 8)
    time.reach(3)
    lows.append(time.low_us)
    reached.append(time.task_us)
    assert (lows, reached) == ([None, 5, 3], [None, 5])
    for loaded, left in ((7, 5), (4, 4), (None, None)):
        time.go_back(loaded)
        assert time.task_us == left
    time.go_back(4)
    assert time.task_us is None


def test_what_steps_were_told_beyond_the_time_reached_is_known_by_group() -> None:
    times, share = GroupTimes(), (Range(0, 4),)
    assert times.beyond(None, share) == ()
    times.tell(100)
    assert times.beyond(60, share) == (GroupsTime(share, 100),)
    assert times.beyond(100, share) == ()
    times.gain(share, [GroupsTime((Range(4, 8),), 50), GroupsTime((Range(6, 8),), 40)])
    grown = (Range(0, 8),)
    assert times.beyond(40, grown) == (GroupsTime(share, 100), GroupsTime((Range(4, 8),), 50))
    times.tell(70)
    assert times.beyond(60, grown) == (GroupsTime(share, 100), GroupsTime((Range(4, 8),), 70))
    assert times.beyond(60, (Range(5, 6),)) == (GroupsTime((Range(5, 6),), 70),)
    assert times.beyond(100, grown) == ()


def test_an_idle_input_holds_nothing_back_and_new_inputs_begin_silent() -> None:
    time = WatermarkMerge("ab", 2)
    time.note("a", 7)
    time.idle("b")
    low = time.low_us
    time.replace("abc")
    silent = time.low_us
    time.idle("c")
    assert (low, silent, time.low_us, time.all_idle) == (7, None, 7, False)


def test_no_mark_is_sent_twice_unless_the_receivers_have_forgotten_it() -> None:
    marks, one = OutputMarks(), [channel(1)]
    assert marks.watermark(one, 4) == [Send(channel(1), Watermark(4))]
    assert marks.watermark(one, 4) == []
    assert marks.watermark(one, 3) == []
    marks.restart()
    assert marks.watermark(one, 3) == [Send(channel(1), Watermark(3))]


def test_nothing_is_sent_to_a_receiver_that_leaves_or_has_not_announced() -> None:
    holding = RescaleBuffer(100)
    holding.begin(Version(2), [channel(0), channel(2)])
    sent = holding.offer([piece(0, 0), piece(1, None, "left"), piece(0, 2, "moves")])
    assert sent == [Send(channel(0), Data("x", 1, 10))]
    assert holding.held_rows == 2
    holding.commit()
    assert (holding.held_bytes, holding.held_rows) == (10, 1)  # what was kept for the receiver that leaves is let go
    assert holding.announced(channel(0), Version(2)) == []
    assert holding.announced(channel(2), Version(2)) == [Send(channel(2), Data("moves", 1, 10))]
    assert holding.held_rows == 0
    assert holding.settled()
    assert holding.phase is BufferPhase.NONE


def test_no_more_is_held_than_some_windows_of_those_that_are_waited_for() -> None:
    small, edge = HELD_BYTES_MIN, [channel(0), channel(1), channel(2)]
    holding = RescaleBuffer(100 * small)
    holding.begin(Version(2), edge)
    holding.bound({channel(0): small, channel(1): 3 * small, channel(7): 1})  # 2 joins: no window
    block = Data("moves", 1, 2 * small)
    offers = 0
    while not holding.full:
        holding.offer([RoutedRows(channel(0), channel(2), block)])
        offers += 1
    assert offers * 2 == 3 * HELD_WINDOWS * 3, "four of the largest window for each"
    assert len(holding.abort()) == offers
    assert not holding.full


def test_whatever_the_windows_are_a_little_may_be_held_and_never_more_than_all() -> None:
    holding = RescaleBuffer(2 * HELD_BYTES_MIN)
    holding.begin(Version(2), [channel(0)])
    holding.bound({channel(0): 1})
    found = []
    for window, size in ((1, HELD_BYTES_MIN - 1), (1, 1), (1 << 40, 0), (1 << 40, HELD_BYTES_MIN)):
        holding.bound({channel(0): window})
        holding.offer([RoutedRows(channel(1), channel(0), Data("moves", 1, size))])
        found.append(holding.full)
    assert found == [False, True, False, True], "the bound of the task stands"


def splits(*, bounded: bool) -> SourceSplits:
    made = SourceSplits(bounded=bounded, idle_after_s=1.0, out_of_orderness_us=0, watermark_us=None)
    made.load([SplitState(SplitId("a"), "{}", 0)], [])
    return made


def test_a_split_is_idle_only_for_silence_while_it_was_asked() -> None:
    source = splits(bounded=False)
    source.empty(SplitId("a"), 0.0)
    source.waited()
    source.empty(SplitId("a"), 5.0)
    assert not source.time.all_idle
    assert source.wakes_at() == 6.0
    source.empty(SplitId("a"), 6.0)
    assert source.time.all_idle


def test_a_bounded_split_is_never_idle_and_a_moving_one_is_not_read() -> None:
    source = splits(bounded=True)
    source.empty(SplitId("a"), 0.0)
    source.empty(SplitId("a"), 9.0)
    assert not source.time.all_idle
    source.stop([SplitId("a")])
    assert not source.reads(SplitId("a"))
    source.go_on()
    assert source.reads(SplitId("a"))


def test_a_time_that_a_silent_split_reaches_counts_once_and_never_falls() -> None:
    source = splits(bounded=False)
    source.rows(SplitId("a"), 5)
    source.time.idle(SplitId("a"))
    assert not source.reached(SplitId("a"), None)
    assert not source.reached(SplitId("a"), 5)
    assert source.time.all_idle, "no news: the split stays idle"
    assert source.reached(SplitId("a"), 9)
    assert source.time.low_us == 9
    assert not source.reached(SplitId("a"), 7)
    assert source.time.low_us == 9
    source.stop([SplitId("a")])
    assert not source.reached(SplitId("a"), 11), "a split that moves is not read"
