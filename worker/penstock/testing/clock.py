"""Times of a test: a clock that stands still until it is told to go on, and event times as texts."""

from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day

from penstock.base.errors import ConfigError
from penstock.base.units import duration_s

EventTime = datetime | str | int
LOOK_S = 0.01
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def event_time_us(time: EventTime, near_us: int) -> int:
    """Return an event time in microseconds since 1970, UTC.

    ``time`` is a number of microseconds, a datetime (UTC if it has no zone), or a text in ISO 8601. A text
    with the time of day alone (``"10:05"``) is taken on the day of ``near_us``. Raises ConfigError for
    anything else.
    """
    if isinstance(time, int) and not isinstance(time, bool):
        return time
    found = _read(time, near_us) if isinstance(time, str) else time
    if not isinstance(found, datetime):
        raise ConfigError(f"{time!r} is no event time: give a datetime, microseconds, or a text like 10:05")
    return ((found if found.tzinfo else found.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def _read(text: str, near_us: int) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        pass
    try:
        return datetime.combine(_EPOCH + near_us * _MICROSECOND, time_of_day.fromisoformat(text))
    except ValueError:
        return None


class StandingClock:
    """:class:`penstock.ports.Clock` that moves by :meth:`advance` only; it begins at 0."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def monotonic(self) -> float:
        """Return the seconds by which it was advanced."""
        return self._seconds

    def wall_us(self) -> int:
        """Return the same in microseconds, as if it had begun in 1970."""
        return round(self._seconds * 1e6)

    def advance(self, duration: str | float) -> None:
        """Go on by a duration like ``"5m"``, or by seconds. Raises ConfigError for another text."""
        try:
            self._seconds += duration_s(duration) if isinstance(duration, str) else float(duration)
        except ValueError as error:
            raise ConfigError(f"advance: {error}") from None


class EvenWork:
    """Measures how long work takes, the same on each machine: each look at it is ``LOOK_S`` after the one before.

    So the rows of a test are divided into the same slices in each run. Slices grow, as those of quick work do.
    """

    def __init__(self) -> None:
        self._looks = 0

    def __call__(self) -> float:
        """Return seconds."""
        self._looks += 1
        return self._looks * LOOK_S
