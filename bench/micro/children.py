"""Nanoseconds for each look-up in a child table, append to and popleft from a list, and bytes for each entry.

``python bench/micro/children.py [entries for each key]``; the best of many runs is shown, because other
programs can only add time.
"""

import sys

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.micro.state import best
from penstock.contract.keygroups import Range
from penstock.contract.settings import StateSettings
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.model.keys import KeyCodec
from penstock.model.table_columns import Value
from penstock.steps.base import ChildSchema, KeyedState, StateSchema

GROUPS, ROWS = 256, 8192
CODEC = KeyCodec((pa.string(),), GROUPS)
SCHEMA = StateSchema(
    "s", (("k", pa.string()),), (), children=(ChildSchema("items", pa.int64(), (Value("value", "int64"),)),)
)


def parents(table: KeyedState, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Return the rows of keys by number. A key has 16 bytes."""
    return table.rows(CODEC.keys([pa.array([f"{i:016d}" for i in numbers.tolist()])]))


def look_ups(entries: int, each: int) -> None:
    """Look up random entries among ``entries``, ``each`` of them for a key."""
    state = KeyedStateBackend(StateSettings(memory_bytes=1 << 34), (Range(0, GROUPS),), GROUPS)
    table = state.open(SCHEMA)
    child = table.child("items")
    above = parents(table, np.arange(entries // each))
    before = state.size_bytes
    order = np.random.default_rng(1).permutation(entries)
    for at in range(0, entries, ROWS):
        some = order[at : at + ROWS]
        child.rows(above[some // each], pa.array(some % each))
    print(f"{entries:,} entries, {each} for a key: {(state.size_bytes - before) / entries:.0f} bytes for each entry")
    batches = [np.random.default_rng(i).integers(0, entries, ROWS) for i in range(100)]
    turns = iter(batches * 5)
    asked = [(above[b // each], pa.array(b % each)) for b in batches]
    again = iter(asked * 5)
    best("  find", ROWS, lambda: child.find(*next(again)), 300)
    again = iter(asked * 5)
    best("  find or make, and mark", ROWS, lambda: child.rows(*next(again)), 300)
    best(
        "  entries in order",
        ROWS // each * each,
        lambda: child.entries(above[next(turns)[: ROWS // each] // each]),
        300,
    )


def lists(keys: int) -> None:
    """Append to the lists of all keys, then take the first items away again."""
    state = KeyedStateBackend(StateSettings(memory_bytes=1 << 34), (Range(0, GROUPS),), GROUPS)
    table = state.open(SCHEMA)
    child = table.child("items")
    above = parents(table, np.arange(keys))
    numbers = iter(range(1000))
    best(f"append, {keys:,} lists", keys, lambda: child.rows(above, pa.array(np.full(keys, next(numbers)))), 60)
    firsts = iter(range(1000))

    def popleft() -> None:
        child.delete(child.find(above, pa.array(np.full(keys, next(firsts)))))

    best(f"popleft, {keys:,} lists", keys, popleft, 50)


if __name__ == "__main__":
    each = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    for entries in (200_000, 700_000):
        look_ups(entries, each)
    lists(8192)
