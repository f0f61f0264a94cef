"""The machine's own clock and fresh ids: what every process outside a test is given."""

import time
import uuid


class SystemClock:
    """:class:`penstock.ports.Clock` of this machine."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    def wall_us(self) -> int:
        """Return microseconds since 1970."""
        return time.time_ns() // 1000


class RandomIds:
    """:class:`penstock.ports.Ids` drawn from the system's randomness."""

    def fresh(self) -> str:
        """Return a new UUID in text form."""
        return str(uuid.uuid4())
