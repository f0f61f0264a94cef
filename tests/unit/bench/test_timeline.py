import pytest

from bench.samples import Series
from bench.timeline import (
    back_after_s,
    longest_pause_s,
    rate_of_counter,
    rate_of_ticks,
    rise,
    summed,
)


def ticks(*rows: int, start: int = 0) -> Series:
    return [((start + i) / 10, n) for i, n in enumerate(rows)]


def test_a_rate_is_of_whole_ticks_inside_the_time() -> None:
    made = ticks(1000, 10, 10, 10, 1000)
    assert rate_of_ticks(made, 0.1, 0.4) == pytest.approx(100)
    assert rate_of_ticks(made, 5.0, 6.0) == 0.0


def test_the_tail_of_a_counter_without_rows_does_not_count() -> None:
    assert rate_of_counter([(0.0, 0), (1.0, 50), (2.0, 100), (9.0, 100)]) == 50.0
    assert rate_of_counter([(1.0, 5)]) == 0.0


def test_a_rate_is_back_when_a_whole_second_has_it() -> None:
    gap = [100] * 10 + [0] * 20 + [30] * 5 + [100] * 20
    assert back_after_s(ticks(*gap), 1.0, 1000.0) == pytest.approx(2.5)
    assert back_after_s(ticks(*gap), 1.0, 2000.0) is None
    assert back_after_s(ticks(*[100] * 30), 1.0, 1000.0) == pytest.approx(0.0)


def test_a_burst_of_delayed_rows_is_not_a_full_second() -> None:
    burst = [100] * 10 + [0] * 10 + [900] + [0] * 20 + [100] * 20
    back = back_after_s(ticks(*burst), 1.0, 1000.0)
    assert back == pytest.approx(3.1)


def test_the_longest_silence_within_a_time() -> None:
    made = ticks(5, 0, 0, 0, 5, 0, 0, 0, 0, 0, 5)
    assert longest_pause_s(made, 0.0, 0.4) == 0.3
    assert longest_pause_s(made, 0.0, 2.0) == 0.5


def test_a_rise_is_interpolated_between_samples() -> None:
    series = [(0.0, 0.0), (2.0, 20.0), (4.0, 20.0)]
    assert rise(series, 1.0, 3.0) == 10.0
    assert rise(series, 3.0, 9.0) == 0.0
    assert rise([(0.0, 50.0), (1.0, 10.0)], 0.0, 1.0) == 0.0  # a process ended
    assert rise([], 0.0, 1.0) == 0.0


def test_ticks_together_are_a_rate() -> None:
    together = summed(ticks(10, 20, 30), 2)
    assert [at for at, _ in together] == [0.0, 0.2]
    assert [rate for _, rate in together] == pytest.approx([150.0, 300.0])
