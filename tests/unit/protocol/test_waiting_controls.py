"""Control elements that wait in a channel whose rows have no credit: which are kept, and when there are too many."""

import itertools
from collections.abc import Sequence

import pytest

from penstock.base.limits import CONTROLS_WAITING_MAX
from penstock.contract.ids import ChannelId, Version
from penstock.model.elements import Active, Control, EndOfStream, Idle, Watermark
from penstock.protocol.channel.flow_control import SendChannel
from penstock.protocol.task.input_progress import WatermarkMerge
from tests.unit.protocol.test_flow_control import BARRIER, CHANNEL, MARKER, SENDER, credit, data, leave


def stalled(flush_interval_s: float = 0.0) -> SendChannel[str]:
    """A channel whose first row has no credit."""
    channel = SendChannel[str](1 << 20, flush_interval_s, Version(1))
    channel.accept()
    channel.on_credit(credit(0))
    channel.passes(data("sent"))  # an element leaves without credit when nothing is outstanding
    channel.offer(data("first"), 0)
    return channel


SIDE_BY_SIDE: dict[str, tuple[list[Control | str], list[Control | str]]] = {
    "a row each": (
        [Active(), "a", Watermark(1), Idle(), Active(), "b", Watermark(2), Idle()],
        [Active(), "a", Watermark(1), "b", Watermark(2), Idle()],
    ),
    "no rows": ([Active(), Watermark(1), Idle(), Active(), Watermark(2), Idle()], [Watermark(2), Idle()]),
    "idle and active again": ([Watermark(1), Idle(), Active()], [Watermark(1)]),
    "active without a mark": ([Idle(), Active()], [Active()]),
    "idle twice": ([Idle(), Active(), Idle()], [Idle()]),
    "a mark ends idleness": ([Idle(), Watermark(1)], [Watermark(1)]),
    "the last state is idle": ([Watermark(1), Idle()], [Watermark(1), Idle()]),
    "a barrier between": ([Watermark(1), Idle(), BARRIER, Active()], [Watermark(1), Idle(), BARRIER, Active()]),
    "a lower mark behind a barrier": ([Watermark(5), BARRIER, Watermark(3)], [Watermark(5), BARRIER, Watermark(3)]),
    "the end": ([Idle(), Watermark(1), EndOfStream()], [Watermark(1), EndOfStream()]),
}


@pytest.mark.parametrize("name", SIDE_BY_SIDE)
def test_of_unsent_marks_side_by_side_the_last_state_is_kept(name: str) -> None:
    given, kept = SIDE_BY_SIDE[name]
    channel = SendChannel[str](1 << 20, 5.0, Version(1))
    channel.on_credit(credit(1 << 40))
    for element in given:
        if isinstance(element, str):
            channel.offer(data(element), 0)
        else:
            channel.put(element)
    channel.accept()
    assert leave(channel, 9.0) == [(element,) if isinstance(element, str) else element for element in kept]
    assert channel.drained
    assert channel.roomy


def test_a_latency_marker_keeps_its_place_between_marks() -> None:
    channel = SendChannel[str](1 << 20, 0.0, Version(1))
    channel.on_credit(credit(1 << 40))
    channel.put(Watermark(1))
    assert channel.offer_marker(MARKER)
    channel.put(Watermark(2))
    channel.accept()
    assert leave(channel) == [Watermark(1), MARKER, Watermark(2)]


def test_a_quiet_source_before_a_stalled_receiver_sends_its_last_state_only() -> None:
    channel = stalled()
    for row in range(2 * CONTROLS_WAITING_MAX):  # its rows go to other channels
        channel.put(Active())
        channel.put(Watermark(row))
        channel.put(Idle())
    assert not channel.full
    channel.on_credit(credit(1 << 40, received=1))
    assert leave(channel) == [("first",), Watermark(2 * CONTROLS_WAITING_MAX - 1), Idle()]


@pytest.mark.parametrize("flush_interval_s", [0.0, 0.005])
def test_control_elements_that_wait_make_a_channel_full(flush_interval_s: float) -> None:
    channel, rows = stalled(flush_interval_s), 0
    while not channel.full:
        channel.put(Active())
        channel.offer(data("a", 50), float(rows))
        channel.put(Watermark(rows))
        channel.put(Idle())
        rows += 1
        assert channel.take(float(rows)) is None
    assert channel.waiting_bytes < channel.window // 2, "bytes alone do not make it full"
    assert not channel.offer(data("refused"), float(rows))
    for row in range(rows, 2 * CONTROLS_WAITING_MAX):  # no more rows come, so these are side by side
        for control in (Active(), Watermark(row), Idle()):
            channel.put(control)
    channel.on_credit(credit(1 << 40, received=1))
    left = 0
    while not channel.roomy:
        channel.take(float(rows))
        left += 1
    assert left > rows // 2, "a task is woken when there is room for many more"
    assert leave(channel, float(rows))[-2:] == [Watermark(2 * CONTROLS_WAITING_MAX - 1), Idle()]


@pytest.mark.parametrize("accepted_after", [0, 3, 6])
def test_time_is_the_same_at_each_row_and_barrier_and_never_ahead(accepted_after: int) -> None:
    others = ChannelId(1, SENDER, CHANNEL.receiver)
    for kinds in itertools.product("WIARB", repeat=6):
        given = [_element(kind, place) for place, kind in enumerate(kinds)]
        channel, left = SendChannel[str](1 << 20, 0.0, Version(1)), list[object]()
        channel.on_credit(credit(1 << 40))
        for place, element in enumerate(given):
            if place == accepted_after:
                channel.accept()
            if isinstance(element, str):
                channel.offer(data(element), 0)
            else:
                channel.put(element)
            left += leave(channel)
        channel.accept()
        left += leave(channel)
        wanted, found = _times(given, others), _times(left, others)
        assert [known for known, _ in found] == [known for known, _ in wanted]
        assert all(mine <= least for (_, mine), (_, least) in zip(found, wanted, strict=True)), kinds


def _element(kind: str, place: int) -> Control | str:
    controls: dict[str, Control] = {"W": Watermark(10 * place), "I": Idle(), "A": Active(), "B": BARRIER}
    return controls.get(kind, "row")


def _times(elements: Sequence[object], others: ChannelId) -> list[tuple[object, int]]:
    """Return, at each row and barrier and at the end, what a receiver knows of the channel, and its own time."""
    merge = WatermarkMerge((CHANNEL, others), -1)
    merge.note(others, 25)
    found: list[tuple[object, int]] = []
    for element in elements:
        match element:
            case Watermark(time_us):
                merge.note(CHANNEL, time_us)
            case Idle():
                merge.idle(CHANNEL)
            case Active():
                merge.active(CHANNEL)
            case _:
                found.append((_known(merge), merge.task_us or 0))
                if element != BARRIER:
                    merge.active(CHANNEL)
        if merge.low_us is not None:
            merge.reach(merge.low_us)
    return [*found, (_known(merge), merge.task_us or 0)]


def _known(merge: WatermarkMerge[ChannelId]) -> tuple[int | None, bool]:
    return merge._marks[CHANNEL], merge.is_idle(CHANNEL)
