"""When windows emit, in the Python API: ``early("10s", time="clock")``, ``on_late()`` and ``at_end()``."""

from typing import Literal

from penstock.base.errors import ConfigError
from penstock.base.user_code import caller_place
from penstock.base.values import replace
from penstock.contract.graph import TimeKind, Trigger
from penstock.graph.window_shapes import Duration, microseconds

TimeLike = Literal["event", "clock"]
TriggerLike = Trigger | tuple[Trigger, ...]


def time_of(text: str) -> TimeKind:
    """Read which time counts. Raises ConfigError with the file and line of the caller."""
    if text not in set(TimeKind):
        raise ConfigError(f"{caller_place()}: time={text!r} is not one of {', '.join(TimeKind)}")
    return TimeKind(text)


def at_end() -> Trigger:
    """Emit each window once, at its end plus the allowed lateness: what windows do without a trigger."""
    return Trigger()


def early(every: Duration, *, time: TimeLike = "event") -> Trigger:
    """Emit what a window has so far, while it is open: a pane with the totals, if rows have come since the last one.

    With ``time="event"`` at each multiple of ``every`` after the start of the window; with ``time="clock"`` when
    ``every`` has passed by the clock since the first row that no pane has. Raises ConfigError.
    """
    every_us = microseconds("early", every)
    if every_us <= 0:
        raise ConfigError(f"{caller_place()}: early: 0s; it must be longer")
    return Trigger(every_us, time_of(time))


def on_late() -> Trigger:
    """Emit a window at its end, and once more after rows that come within the allowed lateness."""
    return Trigger(on_late=True)


def trigger_of(step: str, given: TriggerLike | None) -> Trigger | None:
    """Join the triggers of a step. None: windows emit once. Raises ConfigError."""
    several = given if isinstance(given, tuple) else () if given is None else (given,)
    place = caller_place()
    joined = Trigger()
    for each in several:
        if not isinstance(each, Trigger):
            raise ConfigError(
                f"{place}: step {step!r}: trigger={each!r}: write ps.early('10s'), ps.on_late(), or a tuple of both"
            )
        if each.early_us is not None:
            if joined.early_us is not None:
                raise ConfigError(f"{place}: step {step!r}: trigger: ps.early is there twice")
            joined = replace(joined, early_us=each.early_us, time=each.time)
        joined = replace(joined, on_late=joined.on_late or each.on_late)
    return None if joined == Trigger() else joined
