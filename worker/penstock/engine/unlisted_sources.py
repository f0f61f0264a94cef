"""The sources whose splits could not be listed when the leader last asked for them, for people."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.base.errors import StorageError
from penstock.contract.status import UnlistedSource


class UnlistedSources:
    """``told`` has each source since the beginning of the first try that failed, with the reason of the newest one."""

    def __init__(self, wall_us: Callable[[], int]) -> None:
        """Know of no source."""
        self.told: tuple[UnlistedSource, ...] = ()
        self._wall_us = wall_us

    @contextmanager
    def listing(self, source: str) -> Iterator[None]:
        """Note whether the splits of ``source`` are listed. Any error that is not tried again fails the job."""
        before = next((each.since_us for each in self.told if each.name == source), None)
        since_us = self._wall_us() if before is None else before
        others = tuple(each for each in self.told if each.name != source)
        try:
            yield
        except (StorageError, OSError) as error:
            self.told = (*others, UnlistedSource(source, str(error), since_us))
            raise
        self.told = others

    def clear(self) -> None:
        """Forget what failed: an attempt begins, so all splits are known."""
        self.told = ()
