"""Time that stands still until it is told to go on."""

from penstock.base.errors import ConfigError
from penstock.base.units import duration_s


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
