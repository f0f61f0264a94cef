"""Times as the API server writes them: RFC 3339 in UTC."""

from datetime import UTC, datetime


def micro_time(wall_us: int) -> str:
    """Spell microseconds since 1970 as a MicroTime: six digits after the point, always."""
    seconds, rest = divmod(wall_us, 1_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:06d}Z"
