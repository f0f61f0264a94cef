"""Which windows can be: their size, the time from the begin of a window to that of the next one, and their trigger."""

from penstock.base import limits
from penstock.base.errors import ConfigError
from penstock.base.units import span_text
from penstock.contract.codec import ABSENT
from penstock.contract.graph import Session, TimeKind, Trigger, Window


def check_windows(size_us: int, slide_us: int | None) -> None:
    """Raise ConfigError when windows of this size cannot begin in steps of this slide."""
    if size_us <= 0:
        raise ConfigError("size of a window: 0s; it must be longer")
    if slide_us is None:
        return
    size, slide = span_text(size_us / 1_000_000), span_text(slide_us / 1_000_000)
    if slide_us <= 0:
        raise ConfigError("slide of a window: 0s; it must be longer")
    if slide_us > size_us:
        raise ConfigError(f"slide {slide} is above size {size}: rows between two windows would be in none")
    if size_us % slide_us:
        raise ConfigError(
            f"slide {slide} does not divide size {size}: "
            f"of size {size} it leaves {span_text(size_us % slide_us / 1_000_000)}"
        )
    count, most = size_us // slide_us, limits.WINDOW_SLICES_MAX
    if count > most:
        raise ConfigError(f"size {size} has {count:,} slides of {slide}; at most {most:,} are allowed")


def check_times(window: Window | Session) -> None:
    """Raise ConfigError for what windows by the clock have not, and for a trigger by which no pane would come."""
    if window.time is TimeKind.CLOCK and window.allowed_lateness_us:
        raise ConfigError("allowed lateness: no row is late by the clock")
    if isinstance(window, Window) and window.trigger is not None:
        _check_trigger(window, window.trigger)


def check_top(window: Window | Session, has_top: bool) -> None:
    """Raise ConfigError when the best rows are asked for of windows that have no one result at a known time."""
    if has_top and isinstance(window, Session):
        raise ConfigError("top: sessions of two keys are two windows")
    if has_top and window.time is TimeKind.CLOCK:
        raise ConfigError("top: windows by the clock have no event time, which says when all their rows have come")
    if has_top and isinstance(window, Window) and window.trigger is not None:
        raise ConfigError("top: panes are not the result of a window: leave out the trigger")


def _check_trigger(window: Window, trigger: Trigger) -> None:
    if window.time is TimeKind.CLOCK:
        raise ConfigError("trigger: a window by the clock emits once: make it shorter")
    if window.whole is not ABSENT:
        raise ConfigError("trigger: a function that sees whole windows is called once for each: leave out the trigger")
    if trigger == Trigger(time=trigger.time):
        raise ConfigError("trigger: it says nothing: write early, onLate (ps.early, ps.on_late) or both")
    if window.step_us != window.size_us:
        raise ConfigError("trigger: a sliding window emits once: make the slide shorter")
    if trigger.on_late and not window.allowed_lateness_us:
        raise ConfigError("trigger: on late: no late row enters a window without an allowed lateness")
    if trigger.early_us is not None and trigger.time is TimeKind.EVENT and trigger.early_us >= window.size_us:
        size, early = (span_text(us / 1_000_000) for us in (window.size_us, trigger.early_us))
        raise ConfigError(f"trigger: early {early} is not less than size {size}: no early pane would come")
