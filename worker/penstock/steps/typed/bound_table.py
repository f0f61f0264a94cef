"""The columns of a state table for the rows of one batch, as cells read and write them.

Columns of fixed width are written in place. A :class:`BoundTexts` has the values of any length that the
batch may need: they are read together when the first one is needed, and stored together at the end.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Int32s
from penstock.steps.base import ChildState, KeyedState

Pack = Callable[[list[Any]], pa.Array]
Unpack = Callable[[pa.Array], list[Any]]


class Pending(Protocol):
    """What a batch has written, until it is stored."""

    def store(self) -> None:
        """Store what has changed."""
        ...


Entries = TypeVar("Entries", bound=Pending)


class BoundTexts(dict[int, Any]):
    """The values of a column of any length by row: None where nothing is stored."""

    def __init__(self, table: "BoundTable", name: str, unpack: Unpack, pack: Pack) -> None:
        """Read by ``unpack`` (binary to values), and store by ``pack`` (values to binary)."""
        super().__init__()
        self._table = table
        self._name = name
        self._unpack, self._pack = unpack, pack
        self._stored: dict[int, Any] = {}

    def __missing__(self, row: int) -> Any:
        """Read the values of all rows of the batch."""
        assert not self, "each row of the batch was read"
        found = self._unpack(self._table.state.read_bytes(self._name, self._table.rows))
        self._stored = dict(zip(self._table.rows.tolist(), found, strict=True))
        self.update(self._stored)
        return self[row]

    def store(self) -> None:
        """Store the values that have changed."""
        changed = [row for row, value in self.items() if value is not self._stored[row]]
        if changed:
            values = self._pack([self[row] for row in changed])
            self._table.state.write_bytes(self._name, np.array(changed, np.int32), values)


class BoundTable:
    """One table for the rows of one batch. Valid until the next call of ``state.rows``."""

    def __init__(self, state: KeyedState | ChildState, rows: Int32s) -> None:
        """Show the columns of ``state``. ``rows`` has the row of each key of the batch, also repeatedly."""
        self.state = state
        self._every = rows
        self._texts: list[BoundTexts] = []
        self._later: list[Pending] = []

    @cached_property
    def rows(self) -> Int32s:
        """Return the rows of the batch, each once and rising."""
        return np.unique(self._every).astype(np.int32)

    def fixed(self, name: str) -> memoryview:
        """Return a column of fixed width: ``values[row]``, and ``values[row, i]`` if it is wide."""
        column: Any = self.state.column(name)
        return memoryview(column)

    def texts(self, name: str, unpack: Unpack, pack: Pack) -> BoundTexts:
        """Return a column of values of any length. :meth:`store` stores what has changed."""
        self._texts.append(found := BoundTexts(self, name, unpack, pack))
        return found

    def store(self) -> None:
        """Store the entries and values of any length that have changed. Called once, when the batch is done."""
        for each in (*self._texts, *self._later):
            each.store()

    def child(self, name: str) -> ChildState:
        """Return a child table of the table."""
        return cast(KeyedState, self.state).child(name)  # child tables have none themselves

    def later(self, entries: Entries) -> Entries:
        """Have entries of a child table stored by :meth:`store` too; return them."""
        self._later.append(entries)
        return entries
