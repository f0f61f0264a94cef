"""Tasks that look rows up in a table of a shop, which is in memory and does what a test says."""

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.contract.graph import Connector, Lookup, LookupHow
from penstock.ports import Found
from penstock.steps.base import BOUND_FIELD
from penstock.steps.keyed import KeyColumns
from penstock.steps.lookup.lookup_step import LookupStep
from tests.support.asking_tasks import GROUPS, AskingTasks

KEYS = ("item", "city")
INPUT = pa.schema({"n": pa.int64(), "item": pa.string(), "city": pa.string()})
ADDED = pa.schema({"price": pa.int64(), "since": pa.timestamp("ns"), "tags": pa.list_(pa.string())})
OUTPUT = pa.schema([*INPUT, *ADDED])
# As a source gives them: rows that come out of a state differ from these in nullability.
TIMED = pa.schema([pa.field("n", pa.int64(), nullable=False), *list(INPUT)[1:], BOUND_FIELD])
HOME = "here"  # the city of all rows that say none
Key = tuple[Any, ...]


class Shop:
    """A table with the key ``item`` and ``city``. Rows of a query come in reverse.

    ``asked`` are the keys of each query. The next queries and the next connections fail with ``errors`` and
    ``refusals``, one each. ``open`` are the connections that have not been closed.
    """

    def __init__(self, *items: str) -> None:
        """Sell items at home, which the price tells apart."""
        self.rows: dict[Key, list[dict[str, Any]]] = {(item, HOME): [row_of(item)] for item in items}
        self.asked: list[list[Key]] = []
        self.errors: deque[Exception] = deque()
        self.refusals: deque[Exception] = deque()
        self.connected = 0
        self.open: set[ShopConnection] = set()

    def connect(self, keys: pa.Schema, columns: pa.Schema) -> "ShopConnection":
        assert (tuple(keys.names), columns) == (("sku", "town"), ADDED), "the names in the table"
        if self.refusals:
            raise self.refusals.popleft()
        self.connected += 1
        made = ShopConnection(self)
        self.open.add(made)
        return made


class ShopConnection:
    """One connection."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    def find(self, keys: pa.RecordBatch) -> Found:
        assert self in self._shop.open, "a connection that is closed finds nothing"
        if self._shop.errors:
            raise self._shop.errors.popleft()
        asked = list(zip(*(column.to_pylist() for column in keys.columns), strict=True))
        assert len(set(asked)) == len(asked), "keys differ"
        assert all(part is not None for key in asked for part in key), "no key has a null"
        self._shop.asked.append(asked)
        found = [(number, row) for number, key in enumerate(asked) for row in self._shop.rows.get(key, ())]
        found.reverse()
        rows = pa.RecordBatch.from_pylist([row for _, row in found], ADDED)
        return Found(rows, [number for number, _ in found])

    def close(self) -> None:
        self._shop.open.discard(self)


def row_of(item: str) -> dict[str, Any]:
    """Return the row of an item, which may lack its price or its time."""
    price = ord(item)
    since = None if price % 3 == 0 else 10**18 + price  # a nanosecond that no Python time has
    return {"price": None if price % 2 == 0 else price, "since": since, "tags": [item, None]}


def rows(items: Sequence[str | None], first: int = 0, city: str | None = HOME) -> pa.RecordBatch:
    """Return rows of one city, numbered from ``first`` on."""
    numbers = range(first, first + len(items))
    columns = [pa.array(numbers, pa.int64()), pa.array(items, pa.string()), pa.array([city] * len(items), pa.string())]
    return pa.RecordBatch.from_arrays([*columns, pa.array(numbers, pa.int64())], schema=TIMED)


class LookupTasks(AskingTasks[LookupStep]):
    """Tasks with a lookup. They have connected and checked the table, unless it is not ``ready``."""

    def __init__(self, shop: Shop, folder: Path, tasks: int = 1, *, ready: bool = True, **options: Any) -> None:
        """Look up in ``shop``. ``options`` are of the declaration."""
        declared = Lookup(Connector("shop"), (), ("sku", "town"), **{"how": LookupHow.LEFT, **options})
        keys = KeyColumns(INPUT, KEYS, GROUPS)

        def step() -> LookupStep:
            return LookupStep("prices", keys, declared, shop, (INPUT, OUTPUT), timed=True)

        super().__init__(step, keys, folder, tasks)
        if ready:
            self.look()

    def look(self) -> None:
        """Let all new tasks connect and check the table."""
        for _ in self.tasks:
            self.answer()

    @property
    def step(self) -> LookupStep:
        """The step of the only task."""
        (task,) = self.tasks
        return task.step

    def numbers(self) -> list[int]:
        """Return the numbers of the rows that have left so far."""
        return [row["n"] for row in self.rows()]

    def close(self) -> None:
        """End all. No connection is left."""
        for task in self.tasks:
            task.step.stop()
        super().close()
