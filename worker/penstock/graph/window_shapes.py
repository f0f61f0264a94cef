"""The shapes of windows in the Python API: by time, by the gaps between rows, and by the number of rows."""

from dataclasses import dataclass

from penstock.base import limits
from penstock.base.errors import ConfigError
from penstock.base.units import duration_us, signed_duration_us
from penstock.base.user_code import caller_place
from penstock.contract.window_sizes import check_windows

Duration = str


@dataclass(frozen=True, slots=True)
class WindowForm:
    """The length of windows, the time from one to the next, and their shift from 1970-01-01, in microseconds.

    ``slide_us`` is None for tumbling windows.
    """

    size_us: int
    slide_us: int | None
    offset_us: int


@dataclass(frozen=True, slots=True)
class SessionForm:
    """The time without a row that ends a session, in microseconds."""

    gap_us: int


@dataclass(frozen=True, slots=True)
class CountForm:
    """How many rows of a key a window has."""

    rows: int


def count_window(rows: int) -> CountForm:
    """Describe windows of ``rows`` rows of a key that follow each other, in the order in which they come.

    Raises ConfigError when it is less than one.
    """
    if type(rows) is not int or not 1 <= rows <= limits.WINDOW_ROWS_MAX:
        most = f"{limits.WINDOW_ROWS_MAX:,}"
        raise ConfigError(f"{caller_place()}: rows of a window: {rows!r}; it must be a whole number from 1 to {most}")
    return CountForm(rows)


def session(gap: Duration) -> SessionForm:
    """Describe windows of rows of a key that follow each other in less than ``gap``.

    A session ends ``gap`` after its last row. A row at that very time begins another session. Raises ConfigError.
    """
    gap_us = microseconds("gap", gap)
    if gap_us <= 0:
        raise ConfigError(f"{caller_place()}: gap of a session: 0s; it must be longer")
    return SessionForm(gap_us)


def tumbling(size: Duration, *, offset: Duration = "0s") -> WindowForm:
    """Describe windows of length ``size`` that follow each other, so that each row is in one.

    Windows begin at 1970-01-01 plus ``offset`` plus a multiple of ``size``. Raises ConfigError.
    """
    return _checked(WindowForm(microseconds("size", size), None, microseconds("offset", offset)))


def sliding(size: Duration, slide: Duration, *, offset: Duration = "0s") -> WindowForm:
    """Describe windows of length ``size``, one of which begins every ``slide``: each row is in ``size / slide``.

    Windows end at 1970-01-01 plus ``offset`` plus a multiple of ``slide``. Raises ConfigError when ``slide``
    does not divide ``size``, is above it, or is less than a 4,096th of it.
    """
    return _checked(
        WindowForm(microseconds("size", size), microseconds("slide", slide), microseconds("offset", offset))
    )


def _checked(shape: WindowForm) -> WindowForm:
    try:
        check_windows(shape.size_us, shape.slide_us)
    except ConfigError as error:
        raise ConfigError(f"{caller_place()}: {error}") from None
    return shape


def microseconds(what: str, text: Duration) -> int:
    """Read a duration. Raises ConfigError that names the parameter and the caller's file and line."""
    try:
        return duration_us(text)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{caller_place()}: {what}: {error}") from None


def signed_microseconds(what: str, text: Duration) -> int:
    """Read a duration that may be negative: see :func:`microseconds`."""
    try:
        return signed_duration_us(text)
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"{caller_place()}: {what}: {error}") from None
