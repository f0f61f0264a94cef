"""Child tables compared with a dict of dicts: look-ups, order, deletion, and what a restore finds.

Entries are put, looked up, listed and deleted, and so are whole keys with all their entries. Cuts, aborted epochs,
restores, key groups that are lost and gained again, and rows that move to disk and back come in any order.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.limits import STATE_TABLE_ROWS_MIN
from penstock.model.keys import KeyCodec, Keys
from penstock.model.table_columns import BYTES, Value
from penstock.steps.base import ChildSchema, StateSchema
from tests.support.state_under_change import GROUPS, StateUnderChange

CODEC = KeyCodec((pa.string(),), GROUPS)
SEEN = ChildSchema("seen", pa.int64(), (Value("n", "int64"),))
TAGS = ChildSchema("tags", pa.string(), (Value("text", BYTES),))
SCHEMA = StateSchema("s", (("k", pa.string()),), (Value("n", "int64"),), children=(SEEN, TAGS))
NAMES: list[str | None] = [None, *(f"{'x' * (i % 11)}{i}" for i in range(1, 1400))]
NUMBERS = [-(2**63), -300, -1, 0, 1, 2, 255, 256, 2**63 - 1]
TEXTS = ["", "a", "aa", "ab", "b", "ä", "\0", "a" * 40]
Entries = tuple[dict[int, int], dict[str, bytes]]
State = dict[str | None, Entries]


def _keys(names: list[str | None]) -> Keys:
    return CODEC.keys([pa.array(names, pa.string())])


GROUP_OF: dict[str | None, int] = dict(zip(NAMES, _keys(NAMES).groups.tolist(), strict=True))


class EntriesOfKeys(StateUnderChange[str | None, Entries]):
    """Keys with a map by number and a map by text."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SCHEMA)

    def open(self) -> None:
        super().open()
        self.seen, self.tags = self.table.child("seen"), self.table.child("tags")

    def group(self, key: str | None) -> int:
        return GROUP_OF[key]

    def copied(self, rows: State) -> State:
        return {name: (dict(seen), dict(tags)) for name, (seen, tags) in rows.items()}

    def names(self, random: np.random.Generator, wanted: int) -> list[str | None]:
        """Choose keys whose groups are here; some come again and again."""
        few = NAMES[:40] if wanted % 2 else NAMES
        chosen = random.integers(0, len(few), wanted).tolist()
        return [few[i] for i in chosen if GROUP_OF[few[i]] in self.share]

    def put(self, random: np.random.Generator, wanted: int) -> None:
        """Put entries of some keys. Of several values for an entry the last one holds."""
        names = self.names(random, wanted)
        parents = self.table.rows(_keys(names))
        numbers = [NUMBERS[i] for i in random.integers(0, len(NUMBERS), len(names))]
        texts = [TEXTS[i] for i in random.integers(0, len(TEXTS), len(names))]
        values = random.integers(-9, 9, len(names)).tolist()
        self.seen.column("n")[self.seen.rows(parents, pa.array(numbers, pa.int64()))] = values
        rows = self.tags.rows(parents, pa.array(texts, pa.string()))
        self.tags.write_bytes("text", rows, pa.array([b"%d" % v for v in values], pa.binary()))
        for name, number, text, value in zip(names, numbers, texts, values, strict=True):
            seen, tags = self.rows.setdefault(name, ({}, {}))
            seen[number], tags[text] = value, b"%d" % value

    def look(self, random: np.random.Generator, wanted: int) -> None:
        """Look up one entry and list all entries of some keys."""
        names = self.names(random, wanted)
        parents = self.table.rows(_keys(names))
        for name in names:
            self.rows.setdefault(name, ({}, {}))
        numbers = [NUMBERS[i] for i in random.integers(0, len(NUMBERS), len(names))]
        rows = self.seen.find(parents, pa.array(numbers, pa.int64())).tolist()
        kept = self.seen.column("n")
        found = [None if row < 0 else int(kept[row]) for row in rows]
        assert found == [self.rows[name][0].get(number) for name, number in zip(names, numbers, strict=True)]
        self.compare(names[: wanted // 8])

    def compare(self, names: list[str | None]) -> None:
        """Compare all entries of some keys, in order."""
        parents = self.table.rows(_keys(names))
        ends, rows = self.seen.entries(parents)
        pairs = list(zip(self.seen.subkeys_of(rows).to_pylist(), self.seen.column("n")[rows].tolist(), strict=True))
        assert cut(pairs, ends) == [sorted(self.rows[name][0].items()) for name in names]
        ends, rows = self.tags.entries(parents)
        stored = self.tags.read_bytes("text", rows).to_pylist()
        texts = list(zip(self.tags.subkeys_of(rows).to_pylist(), stored, strict=True))
        assert cut(texts, ends) == [sorted(self.rows[name][1].items()) for name in names]

    def delete(self, random: np.random.Generator, wanted: int) -> None:
        """Delete one entry of each of some keys."""
        names = [*dict.fromkeys(self.names(random, wanted))]
        parents = self.table.rows(_keys(names))
        number, text = NUMBERS[wanted % len(NUMBERS)], TEXTS[wanted % len(TEXTS)]
        for child, subkeys in (
            (self.seen, pa.array([number] * len(names), pa.int64())),
            (self.tags, pa.array([text] * len(names), pa.string())),
        ):
            rows = child.find(parents, subkeys)
            child.delete(rows[rows >= 0])
        for name in names:
            seen, tags = self.rows.setdefault(name, ({}, {}))
            seen.pop(number, None)
            tags.pop(text, None)

    def forget(self, random: np.random.Generator, wanted: int) -> None:
        """Delete keys, with their entries."""
        names = [*dict.fromkeys(self.names(random, wanted // 4))]
        self.table.delete(self.table.rows(_keys(names)))
        for name in names:
            self.rows.pop(name, None)


def cut(items: list[Any], ends: Any) -> list[list[Any]]:
    """Cut a list into the parts that end at ``ends[1:]``."""
    return [items[start:stop] for start, stop in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]


WHAT = (
    *("put", "put", "put", "look", "look", "delete", "delete", "forget", "barrier", "barrier"),
    *("copy", "commit", "restore", "lose", "gain", "squeeze", "squeeze"),
)
STEPS = st.lists(st.tuples(st.sampled_from(WHAT), st.integers(1, 900)), min_size=5, max_size=40)


@given(STEPS, st.integers(0, 2**32))
@settings(max_examples=15)
def test_entries_are_those_of_a_dict_of_dicts(steps: list[tuple[str, int]], seed: int) -> None:
    random = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        subject = EntriesOfKeys(Path(folder))
        subject.put(random, 4 * STATE_TABLE_ROWS_MIN)  # enough to move some to disk
        for what, number in steps:
            perform: Callable[[np.random.Generator, int], None] = getattr(subject, what)
            perform(random, number)
        names = list(subject.rows)
        for at in range(0, len(names), 300):
            subject.compare(names[at : at + 300])
        subject.state.close()
