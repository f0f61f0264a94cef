"""A target as one sink task writes it, or the sink: the marker is written once, before anything can be in doubt."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from penstock.base.threads import Lock
from penstock.contract.ids import Epoch
from penstock.protocol.marked import Wanted

Taken = TypeVar("Taken")  # what a target takes of a staged file: its rows, or the file


class SeededOutput(ABC, Generic[Taken]):
    """A ``MarkedOutput`` that reads its marker anew for each publication. Any thread may use it.

    That of Kafka is none: its producer knows the marker until something fails.
    """

    def __init__(self) -> None:
        """Ask nothing yet."""
        self._known: Epoch | None = None
        self._lock = Lock()

    def known(self, visible: Epoch) -> Epoch:
        """Return an epoch that the marker has reached; write one of ``visible`` when there is none. Blocking.

        See ``MarkedOutput``. Raises StorageError.
        """
        with self._lock:
            if self._known is None:
                self._known = self._seeded(visible)
            return self._known

    def publish(self, wanted: Wanted, blocks: Iterable[Taken]) -> int:
        """Make all blocks visible, each once. Returns how many rows were left out. Blocking.

        Raises StateError when it is not known what is visible, or the target has changed or refuses a row. Raises
        StorageError when a retry may help.
        """
        with self._lock:
            left_out = self._published(wanted, blocks)
            self._known = wanted.epoch
            return left_out

    def close(self) -> None:
        """Do nothing: there is a connection only during a call."""

    @abstractmethod
    def _seeded(self, visible: Epoch) -> Epoch:
        """Return the epoch of the marker, after writing one of ``visible`` when there is none."""

    @abstractmethod
    def _published(self, wanted: Wanted, blocks: Iterable[Taken]) -> int:
        """Make all blocks visible, and return how many rows were left out. The caller has the lock."""
