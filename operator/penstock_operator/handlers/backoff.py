"""How long is waited between two tries: longer each time, bounded, not in step with others."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

FIRST_S = 0.5
LONGEST_S = 30.0
DOUBLINGS_MAX = 16
KOPF_TRIES = 9


@dataclass(frozen=True, slots=True)
class Backoffs:
    """Waits in seconds. ``chance`` gives numbers of 0 to 1: a half to the whole of a bound.

    Kopf takes it as ``settings.networking.error_backoffs``: each call of its own is tried so often
    and then fails, which ends the process. A right that is missing must be seen.
    """

    chance: Callable[[], float]

    def __iter__(self) -> Iterator[float]:
        """Give the waits of one call of Kopf's: a minute or two in all."""
        return (self.after(tries) for tries in range(KOPF_TRIES))

    def after(self, failures: int) -> float:
        """Return how long to wait after so many failures in a row before this one."""
        bound = min(FIRST_S * 2.0 ** min(failures, DOUBLINGS_MAX), LONGEST_S)
        return bound * (0.5 + 0.5 * self.chance())
