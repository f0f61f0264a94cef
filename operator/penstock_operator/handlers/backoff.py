"""Waits between two tries: they grow up to a bound, and random shares keep processes apart."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

FIRST_S = 0.5
LONGEST_S = 30.0
DOUBLINGS_MAX = 16
KOPF_TRIES = 9


@dataclass(frozen=True, slots=True)
class Backoffs:
    """Waits in seconds, each between half of its bound and the bound; ``chance`` gives 0 to 1.

    Kopf uses it as ``settings.networking.error_backoffs``: a call that still fails after these
    waits ends the process. A missing right must not stay unnoticed.
    """

    chance: Callable[[], float]

    def __iter__(self) -> Iterator[float]:
        """Give the waits of one call of Kopf: one to two minutes in total."""
        return (self.after(tries) for tries in range(KOPF_TRIES))

    def after(self, failures: int) -> float:
        """Return the wait after this number of earlier failures in a row."""
        bound = min(FIRST_S * 2.0 ** min(failures, DOUBLINGS_MAX), LONGEST_S)
        return bound * (0.5 + 0.5 * self.chance())
