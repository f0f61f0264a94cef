"""The clock of a step follows that of the machine, and never goes back."""

from penstock.steps.base import NO_BOUND
from penstock.steps.processing_time import ProcessingTime


def test_time_stands_while_the_clock_of_the_machine_is_set_back_and_goes_on_with_it() -> None:
    clock, wall = ProcessingTime(), iter((100, 40, 99, 100, 101))
    clock.follow(lambda: next(wall))
    assert [clock.now_us() for _ in range(5)] == [100, 100, 100, 100, 101]


def test_a_clock_that_follows_none_stands_at_the_least_time() -> None:
    assert ProcessingTime().now_us() == NO_BOUND
