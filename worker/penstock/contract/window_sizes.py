"""Which windows can be: their size, and the time from the begin of a window to the begin of the next one."""

from penstock.base import limits
from penstock.base.errors import ConfigError
from penstock.base.units import span_text


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
