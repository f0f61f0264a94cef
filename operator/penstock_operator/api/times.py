"""Converts times of objects (RFC 3339, UTC) to seconds and back. It reads no clock."""

from datetime import UTC, datetime


def seconds(text: str | None) -> float:
    """Read a time as seconds since 1970; 0 when it is missing or invalid."""
    try:
        return datetime.fromisoformat(text or "").timestamp()
    except ValueError:
        return 0.0


def stamp(at_s: float) -> str:
    """Write seconds since 1970 as the API server does."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def name_stamp(at_s: float) -> str:
    """Write seconds since 1970 for the name of an object. Such names sort by time."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y%m%d-%H%M%S")
