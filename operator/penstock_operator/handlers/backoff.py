"""How long is waited between two tries: longer each time, bounded, not in step with others."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

FIRST_S = 0.5
LONGEST_S = 30.0
DOUBLINGS_MAX = 16


@dataclass(frozen=True, slots=True)
class Backoffs:
    """An endless series of waits in seconds; each iteration begins anew.

    ``chance`` gives numbers of 0 to 1: a wait is between a half and the whole of its bound. Kopf
    takes it as ``settings.networking.error_backoffs``.
    """

    chance: Callable[[], float]

    def __iter__(self) -> Iterator[float]:
        """Begin with the first wait."""
        tries = 0
        while True:
            yield self.after(tries)
            tries += 1

    def after(self, failures: int) -> float:
        """Return how long to wait after so many failures in a row before this one."""
        bound = min(FIRST_S * 2.0 ** min(failures, DOUBLINGS_MAX), LONGEST_S)
        return bound * (0.5 + 0.5 * self.chance())
