"""Spans of time for functions per record, in whole microseconds as ``ps.Time`` is: ``r.at + ps.hours(1)``."""


def days(number: float) -> int:
    """Return so many days in microseconds."""
    return round(number * 86_400_000_000)


def hours(number: float) -> int:
    """Return so many hours in microseconds."""
    return round(number * 3_600_000_000)


def minutes(number: float) -> int:
    """Return so many minutes in microseconds."""
    return round(number * 60_000_000)


def seconds(number: float) -> int:
    """Return so many seconds in microseconds."""
    return round(number * 1_000_000)


def milliseconds(number: float) -> int:
    """Return so many milliseconds in microseconds."""
    return round(number * 1_000)
