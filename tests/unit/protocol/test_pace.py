"""How much a task takes at once and lets wait: it follows what the steps take, on a fake clock."""

from math import inf

import pytest

from penstock.base.limits import (
    CREDIT_FIRST_BYTES,
    CREDIT_FIRST_CHANNEL_BYTES_MIN,
    JOINED_BYTES_MAX,
    SLICE_BYTES_MAX,
    SLICE_FIRST_ROWS,
    TASK_CREDIT_BYTES_MAX,
)
from penstock.contract.ids import ChannelId, Ordinal, StageIndex, TaskId, Version
from penstock.protocol.channel.flow_control import ReceiveChannel
from penstock.protocol.channel.pace import AnswerRate, CreditWindows, Pace

MIB = 1 << 20
ROW_BYTES = 100
TASK = TaskId(StageIndex(1), Ordinal(0), 0)


def work(pace: Pace, row_s: float, seconds: float, *, call_s: float = 0.0, at_most: int = 0) -> int:
    """Let calls take as many rows as they may, or ``at_most``, for so long; return all rows."""
    done = 0
    while seconds > 0:
        rows = min(pace.slice_rows, at_most or pace.slice_rows)
        took = call_s + rows * row_s
        pace.worked(rows, rows * ROW_BYTES, took)
        seconds -= took
        done += rows
    return done


def channels(count: int, high: int = 8 * MIB) -> list[ReceiveChannel]:
    return [
        ReceiveChannel(ChannelId(0, TaskId(StageIndex(0), Ordinal(n), 0), TASK), high, high // 2, Version(1))
        for n in range(count)
    ]


def busy(receivers: list[ReceiveChannel]) -> None:
    """Let a row wait in each channel."""
    for channel in receivers:
        channel.credit()
        channel.on_element(channel.arrived + 1, ROW_BYTES)


def shared(windows: CreditWindows, pace: Pace, receivers: list[ReceiveChannel]) -> list[int]:
    """Share until nothing changes; return the windows."""
    now = 0.0
    for _ in range(30):
        now += 0.1
        windows.share(pace, receivers, now)
    return [channel.window for channel in receivers]


# --- Slices --------------------------------------------------------------------------------------


def test_the_first_call_is_small_for_nobody_knows_what_a_row_costs() -> None:
    pace = Pace()
    assert not pace.known
    assert pace.slice_rows == SLICE_FIRST_ROWS


@pytest.mark.parametrize("row_s", [1e-7, 3e-5, 1e-3, 0.02])
def test_a_call_takes_a_tenth_of_a_second(row_s: float) -> None:
    pace = Pace()
    work(pace, row_s, 2.0)
    assert pace.slice_rows == pytest.approx(0.1 / row_s, rel=0.01)
    assert pace.bytes_per_s == pytest.approx(ROW_BYTES / row_s, rel=0.01)


def test_a_row_that_takes_longer_is_taken_alone() -> None:
    pace = Pace()
    work(pace, 0.5, 40.0)
    assert pace.slice_rows == 1


def test_a_call_that_takes_no_time_tells_nothing() -> None:
    pace = Pace()
    pace.worked(10, 1000, 0.0)
    assert not pace.known
    assert pace.slice_rows == SLICE_FIRST_ROWS


def test_where_a_call_costs_much_beside_its_rows_a_slice_is_worth_it() -> None:
    pace = Pace()
    work(pace, 1e-5, 20.0, call_s=0.2)
    assert pace.slice_rows == pytest.approx(SLICE_BYTES_MAX / ROW_BYTES, rel=0.3)
    assert pace.joined_bytes == SLICE_BYTES_MAX
    done = work(pace, 1e-5, 20.0, call_s=0.2)
    best = 20.0 / (0.2 + 1e-5 * SLICE_BYTES_MAX / ROW_BYTES) * SLICE_BYTES_MAX / ROW_BYTES
    assert done >= 0.8 * best, "slices, pace and windows have shrunk each other"


def test_the_fixed_cost_of_a_call_is_a_fifth_of_it_where_rows_cost_much_too() -> None:
    pace = Pace()
    work(pace, 1e-4, 20.0, call_s=0.05)
    assert 0.8 * 2000 <= pace.slice_rows <= 1.2 * 2000, "four times 50 ms, in rows of 0.1 ms"


@pytest.mark.parametrize("call_s", [0.2, 0.5])
def test_a_task_that_begins_has_large_slices_after_few_calls(call_s: float) -> None:
    """Others wait for it meanwhile: in a rescale, whoever sends to a task that has just joined."""
    pace, receivers, windows, now = Pace(), channels(3), CreditWindows(), 0.0
    windows.begin(receivers)
    busy(receivers)
    for _ in range(8):  # 13 when slices and windows doubled with each call
        rows = min(pace.slice_rows, sum(channel.window for channel in receivers) // ROW_BYTES)
        now += call_s + rows * 1e-5
        pace.worked(rows, rows * ROW_BYTES, call_s + rows * 1e-5)
        windows.share(pace, receivers, now)
    assert pace.slice_rows >= 0.9 * SLICE_BYTES_MAX / ROW_BYTES


def test_a_slice_never_grows_beyond_five_fixed_costs_if_all_time_was_for_rows() -> None:
    """But for a doubling: the line may be wrong about what a row costs."""
    pace = Pace()
    for _ in range(40):
        rows = pace.slice_rows
        took = 0.05 + rows * 1e-4
        pace.worked(rows, rows * ROW_BYTES, took)
        assert pace.slice_rows * took / rows <= max(5 * 0.05, 2 * took) * 1.05


def test_waiting_for_credit_lowers_the_pace_and_is_no_fixed_cost() -> None:
    pace = Pace()
    for turn in range(100):
        rows = pace.slice_rows + turn % 3
        pace.worked(rows, rows * ROW_BYTES, rows * 1e-6 + 0.2, 0.2)
    assert pace.slice_rows <= 10
    assert pace.joined_bytes == JOINED_BYTES_MAX


def test_one_slow_call_is_forgotten_soon() -> None:
    pace = Pace()
    pace.worked(SLICE_FIRST_ROWS, SLICE_FIRST_ROWS * ROW_BYTES, 1.0)  # it compiles something
    assert pace.slice_rows <= 10
    work(pace, 1e-7, 0.3, call_s=1e-4)
    assert pace.slice_rows * 1e-7 >= 0.02, "slices are large again"


def test_a_slowdown_is_seen_at_the_first_call_that_shows_it() -> None:
    pace = Pace()
    work(pace, 1e-6, 1.0)
    before = pace.slice_rows
    pace.worked(1000, 1000 * ROW_BYTES, 1.0)
    pace.worked(100, 100 * ROW_BYTES, 0.1)
    assert pace.slice_rows <= before // 50


# --- Windows -------------------------------------------------------------------------------------


def test_channels_begin_with_a_share_of_little_and_never_with_less_than_a_few_rows() -> None:
    few, many = channels(4), channels(64)
    CreditWindows().begin(few)
    CreditWindows().begin(many)
    assert [channel.window for channel in few] == [CREDIT_FIRST_BYTES // 4] * 4
    assert [channel.window for channel in many] == [CREDIT_FIRST_CHANNEL_BYTES_MIN] * 64


@pytest.mark.parametrize("row_s", [3e-5, 1e-3])
def test_all_channels_together_hold_a_quarter_of_a_second_of_work(row_s: float) -> None:
    pace, receivers = Pace(), channels(4)
    busy(receivers)
    work(pace, row_s, 2.0)
    held = sum(shared(CreditWindows(), pace, receivers))
    assert 0.6 * 0.25 <= held / ROW_BYTES * row_s <= 1.3 * 0.25


def test_a_fast_task_lets_as_much_wait_as_ever() -> None:
    pace, receivers = Pace(), channels(2)
    busy(receivers)
    work(pace, 1e-6, 2.0)
    assert shared(CreditWindows(), pace, receivers) == [8 * MIB, 8 * MIB]
    more = channels(4)
    busy(more)
    assert shared(CreditWindows(), pace, more) == [TASK_CREDIT_BYTES_MAX // 4] * 4


def test_a_channel_without_rows_leaves_its_share_to_others_but_for_ten_milliseconds() -> None:
    pace, receivers = Pace(), channels(16)
    busy(receivers[:1])
    work(pace, 3e-6, 2.0)
    first, *others = shared(CreditWindows(), pace, receivers)
    assert first / ROW_BYTES * 3e-6 == pytest.approx(0.25, rel=0.3)
    assert all(window / ROW_BYTES * 3e-6 == pytest.approx(0.01, rel=0.3) for window in others)


def test_a_row_that_is_larger_than_all_still_fits_a_window() -> None:
    pace, receivers = Pace(), channels(3)
    for _ in range(5):
        pace.worked(1, MIB, 2.0)
    assert all(window > MIB for window in shared(CreditWindows(), pace, receivers))


def test_a_window_never_exceeds_what_the_user_set() -> None:
    pace, receivers = Pace(), channels(2, high=3000)
    busy(receivers)
    work(pace, 1e-7, 2.0)
    assert shared(CreditWindows(), pace, receivers) == [3000, 3000]


def test_the_budget_doubles_at_most_and_falls_at_once() -> None:
    pace, receivers, windows = Pace(), channels(1), CreditWindows()
    windows.begin(receivers)
    busy(receivers)
    work(pace, 5e-5, 2.0)
    grown = []
    for turn in range(4):
        windows.share(pace, receivers, turn * 0.1)
        grown.append(receivers[0].window)
    assert grown == [CREDIT_FIRST_BYTES * factor for factor in (2, 4, 8, 16)]
    work(pace, 1e-2, 200.0)
    assert windows.share(pace, receivers, 1.0) == receivers
    assert receivers[0].window <= 30 * ROW_BYTES + 512


def test_windows_change_ten_times_a_second() -> None:
    pace, receivers, windows = Pace(), channels(1), CreditWindows()
    assert windows.due(5.0)
    assert windows.share(pace, receivers, 5.0) == [], "no pace is known"
    assert windows.due(5.0)
    work(pace, 1e-7, 0.1)
    windows.share(pace, receivers, 5.0)
    assert not windows.due(5.09)
    assert windows.due(5.11)


def test_steps_that_take_all_rows_bound_no_pace() -> None:
    rate = AnswerRate()
    assert not any(rate.seen(False, 1000 * at, float(at)) for at in range(5))
    assert rate.rows_per_s == inf


def test_rows_that_are_taken_as_answers_come_say_how_fast_a_queue_drains() -> None:
    """A service that answers 100 rows a second, all at once: the step takes them in no time, and then none."""
    rate, pace = AnswerRate(), Pace()
    pace.worked(100, 1600, 0.001)
    assert not rate.seen(True, 100, 0.0)
    assert not rate.seen(False, 100, 0.9)
    assert rate.seen(True, 200, 1.0)
    assert rate.rows_per_s == 100
    pace.bound(rate.rows_per_s)
    assert pace.slice_rows == 10
    assert pace.bytes_per_s == 1600
    rate.seen(False, 500, 2.0)
    assert rate.seen(False, 900, 3.0)
    pace.bound(rate.rows_per_s)
    assert pace.slice_rows > 1000, "the steps take all that comes again"


def test_without_an_answer_rows_are_taken_one_by_one() -> None:
    pace = Pace()
    pace.worked(100, 1600, 0.001)
    pace.bound(0.0)
    assert pace.slice_rows == 1
