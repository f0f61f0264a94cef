"""What tables of files have in common as targets of the runs, whatever their format is."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from random import Random
from typing import Any, Protocol
from uuid import UUID

from obstore import exceptions

from penstock.connectors.tables import copied_names
from sim.kernel.kernel import Violation
from sim.publishers.strands import running
from sim.publishers.targets import NAME, NoReply, replace_name
from sim.servers.lake_files import Unreadable

COLUMNS_MAX = 2  # that other writers add


class LakeServer(Protocol):
    """A virtual table and its bucket."""

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return what a reader gets. Raises Unreadable."""
        ...

    def lose_markers(self, table: str) -> None:
        """Forget all markers."""
        ...

    def client_ended(self, process: str) -> None:
        """Forget what a process has open."""
        ...


class LakeTarget(ABC):
    """A table named ``NAME``, its bucket, and the rows that other writers have in it: their numbers are below 0."""

    _server: LakeServer

    def __init__(self, clock: Callable[[], float], retention_s: float) -> None:
        """Replace clock and names of copies for good. A file that no version has is old after ``retention_s``."""
        self._clock, self._later, self._retention_s = clock, 0.0, retention_s
        self._written = self._columns = 0  # by other writers
        self._numbers = count(1)
        replace_name(copied_names, "uuid4", lambda: UUID(int=next(self._numbers)))
        replace_name(copied_names, "monotonic", self._now)

    @abstractmethod
    def _theirs(self) -> Iterable[int]:
        """Return the numbers of the rows of other writers."""

    @abstractmethod
    def _write_as_another(self, draw: Random) -> None:
        """Do what one of the other writers does."""

    def _now(self) -> float:
        return self._clock() + self._later

    def _ask_server(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Call a method of the server as a request of the strand that runs. Raises NoReply."""
        return running().ask(name, lambda: getattr(self._server, name)(*arguments))

    def _ask_for_object(self, name: str, arguments: tuple[Any, ...]) -> Any:
        try:
            return self._ask_server(name, arguments)
        except NoReply as error:
            raise exceptions.GenericError("the connection was lost") from error

    def visible(self) -> Counter[int]:
        """See PublishTarget. Raises Violation when the table cannot be read, or lacks rows of others."""
        try:
            found = Counter(row["number"] for row in self.rows())
        except Unreadable as error:
            raise Violation("E", f"the table: {error}") from error
        theirs = {number: count for number, count in found.items() if number < 0}
        if theirs != dict.fromkeys(self._theirs(), 1):
            raise Violation("E", f"the table has these rows of others: {theirs}")
        return found

    def rows(self) -> Sequence[Mapping[str, Any]]:
        """See PublishTarget. Raises Unreadable."""
        return self._server.rows(NAME)

    def lose_markers(self) -> None:
        """See PublishTarget."""
        self._server.lose_markers(NAME)

    def process_ended(self, process: str) -> None:
        """See PublishTarget."""
        self._server.client_ended(process)

    def let_days_pass(self) -> None:
        """See Lake."""
        self._later += self._retention_s + 1

    def write_as_another(self, draw: Random) -> None:
        """See Lake. Raises Violation when the table cannot be read."""
        try:
            self._write_as_another(draw)
        except (Unreadable, FileNotFoundError) as error:
            raise Violation("E", f"the table: {error}") from error
