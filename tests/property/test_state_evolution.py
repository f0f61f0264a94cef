"""A state with types whose class changes between restores agrees with plain Python values.

A class of states has some of the fields below, in any order. Between cuts, crashes, rescales and rows that move to
disk, the job goes on with another class: fields are added and dropped, and rows that were stored by several classes
before lie beside each other. The model keeps each key as a dict. Its rules are three lines: :func:`evolved`.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.keyed_state.state_files import BlockReader
from penstock.keyed_state.stored_schema import described, stored_schema
from penstock.keyed_state.tiered import ROWS_MIN
from penstock.model.declared.state_types import state_type
from penstock.model.keys import KeyCodec
from penstock.steps.base import StateSchema
from penstock.steps.typed.added_fields import evolving_columns
from penstock.steps.typed.bound_table import BoundTable
from penstock.steps.typed.entry_tables import children_of
from penstock.steps.typed.state_rows import StateRows
from penstock.steps.typed.undo_log import UndoLog
from tests.support.state_under_change import GROUPS, StateUnderChange

CODEC = KeyCodec((pa.string(),), GROUPS)
NAMES = [f"key-{i}" for i in range(2 * ROWS_MIN)]
GROUP_OF: dict[str, int] = dict(zip(NAMES, CODEC.keys([pa.array(NAMES, pa.string())]).groups.tolist(), strict=True))
FEW = 30  # keys that are used again and again


@ps.record
class Place:
    x: int
    name: str | None = None


@dataclass(frozen=True)
class Field:
    """A field of the classes: its hint, its default, a value of a number, and how a function writes it."""

    hint: Any
    default: Any = None
    value: Callable[[int], Any] = int
    form: str = "set"

    def write(self, proxy: Any, name: str, value: Any) -> None:
        kept = getattr(proxy, name)
        match self.form:
            case "set":
                setattr(proxy, name, value)
            case "append":
                kept.append(value)
            case "put":
                kept[value] = value
            case "add":
                kept.add(value)

    def after(self, before: Any, value: Any) -> Any:
        match self.form:
            case "set":
                return value
            case "append":
                return (*before, value)[-3 if self.hint is RING else 0 :]
            case _:
                return tuple(sorted({*before, value}))


RING: Any = ps.Ring[ps.int8, 3]  # type: ignore[valid-type]
POOL = {
    "total": Field(int, 0),
    "tiny": Field(ps.int8, 7, lambda n: n % 100),
    "mean": Field(float, -0.0, lambda n: n / 4),
    "yes": Field(bool, True, lambda n: n % 2 == 0),
    "label": Field(str, "new", "text {}".format),
    "note": Field(str | None, "first", lambda n: None if n % 3 else f"note {n}"),
    "limit": Field(float | None, 2.5, lambda n: n / 8 if n % 3 else None),
    "kind": Field(ps.Enum["NEW", "OLD"], "OLD", lambda n: ("NEW", "OLD")[n % 2]),
    "pair": Field(tuple[int, str | None], (3, None), lambda n: (n, f"{n}" if n % 2 else None)),
    "where": Field(Place | None, None, lambda n: Place(n, "there") if n % 3 else None),
    "idle": Field(ps.Timer, None, lambda n: n + 1 if n % 3 else None),
    "last": Field(RING, (), lambda n: n % 100, "append"),
    "items": Field(ps.List[int], (), int, "append"),
    "counts": Field(ps.Map[int, int], (), lambda n: n % 5, "put"),
    "seen": Field(ps.Set[str], (), lambda n: f"s{n % 5}", "add"),
}
Row = dict[str, Any]
Version = tuple[str, ...]
VERSIONS = st.lists(st.lists(st.sampled_from(list(POOL)), min_size=1, max_size=6, unique=True).map(tuple), min_size=2)


def first_row(version: Version) -> Row:
    return {name: POOL[name].default for name in version}


def evolved(row: Row, version: Version) -> Row:
    """Return a row as the class of another version takes it over."""
    return {name: row.get(name, POOL[name].default) for name in version}


def class_of(version: Version) -> type:
    annotations = {name: POOL[name].hint for name in version}
    defaults = {n: POOL[n].default for n in version if POOL[n].form == "set" and POOL[n].hint is not ps.Timer}
    return ps.state(type("State", (), {"__annotations__": annotations, "__module__": __name__, **defaults}))


class Evolving(StateUnderChange[str, Row]):
    """The state of a class that changes."""

    def __init__(self, folder: Path, versions: list[Version]) -> None:
        self.versions = versions
        self.number = 0
        super().__init__(folder, self.schema_of(0))

    def schema_of(self, number: int) -> StateSchema:
        self.version = self.versions[number % len(self.versions)]
        found = state_type(class_of(self.version))
        assert found is not None
        self.rows_of = StateRows(found, UndoLog())
        children = children_of(found)
        return StateSchema("s", (("k", pa.string()),), evolving_columns(found), children=children, evolves=True)

    def group(self, key: str) -> int:
        return GROUP_OF[key]

    def copied(self, rows: dict[str, Row]) -> dict[str, Row]:
        return {name: evolved(row, self.version) for name, row in rows.items()}

    def change(self, random: np.random.Generator, wanted: int) -> None:
        """Go on from the last commit with the next class."""
        self.number += 1
        self.schema = self.schema_of(self.number)
        self.restore(random, wanted)

    def commit(self, random: np.random.Generator, wanted: int) -> None:
        """Commit. Afterwards each listed file has the present schema."""
        cut = self.cut
        super().commit(random, wanted)
        if cut is not None:
            here = {each.name: each for each in (self.schema, *map(self.schema.of_child, self.schema.children))}
            for file in self.files:
                path = self.folder / "look"
                self.blobs.fetch(file.blob, str(path))
                for block in BlockReader(path, "look").blocks(file.groups):
                    assert stored_schema(block) == described(here[file.state], GROUPS), file.state
                path.unlink()

    def names(self, random: np.random.Generator, wanted: int) -> list[str]:
        chosen = random.integers(0, FEW if wanted % 2 else len(NAMES), wanted).tolist()
        return [NAMES[i] for i in dict.fromkeys(chosen) if GROUP_OF[NAMES[i]] in self.share]

    def each(self, names: list[str], do: Callable[[Any, str], None]) -> None:
        rows = self.table.rows(CODEC.keys([pa.array(names, pa.string())]))
        self.rows_of.bind(BoundTable(self.table, rows))
        for row, name in zip(rows.tolist(), names, strict=True):
            self.rows_of.log.begin()
            self.rows_of.at(row)
            do(self.rows_of.proxy, name)
            self.rows_of.kept()
        self.rows_of.store()

    def put(self, random: np.random.Generator, wanted: int) -> None:
        """Write one field of each of some keys."""
        numbers = dict(zip(NAMES, random.integers(0, 1000, len(NAMES)).tolist(), strict=True))

        def write(proxy: Any, name: str) -> None:
            number = numbers[name]
            which = self.version[number % len(self.version)]
            field = POOL[which]
            field.write(proxy, which, field.value(number))
            row = self.rows.setdefault(name, first_row(self.version))
            row[which] = field.after(row[which], field.value(number))

        self.each(self.names(random, wanted), write)

    def clear(self, random: np.random.Generator, wanted: int) -> None:
        """Forget some keys."""

        def forget(proxy: Any, name: str) -> None:
            proxy.clear()
            self.rows.pop(name, None)

        self.each(self.names(random, wanted // 2), forget)

    def look(self, random: np.random.Generator, wanted: int) -> None:
        self.compare(self.names(random, wanted))

    def compare(self, names: list[str]) -> None:
        def check(proxy: Any, name: str) -> None:
            found = {each: plain(getattr(proxy, each)) for each in self.version}
            assert repr(found) == repr(self.rows.get(name, first_row(self.version))), name

        self.each(names, check)


def plain(value: Any) -> Any:
    """Return what the model has for a value that a function gets."""
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, int | float | tuple | Place):
        return value
    return tuple(value)


WHAT = (
    *("put", "put", "put", "look", "clear", "barrier", "copy", "commit", "commit", "change", "change"),
    *("restore", "lose", "gain", "squeeze", "squeeze"),
)
STEPS = st.lists(st.tuples(st.sampled_from(WHAT), st.integers(1, 300)), min_size=5, max_size=40)


@given(VERSIONS, STEPS, st.integers(0, 2**32))
@settings(max_examples=15)
def test_fields_are_added_and_dropped_as_in_plain_python(
    versions: list[Version], steps: list[tuple[str, int]], seed: int
) -> None:
    random = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        subject = Evolving(Path(folder), versions)
        subject.put(random, 2 * ROWS_MIN)  # enough to move some to disk
        for what, number in steps:
            perform: Callable[[np.random.Generator, int], None] = getattr(subject, what)
            perform(random, number)
        subject.compare([name for name in NAMES if GROUP_OF[name] in subject.share])
        subject.state.close()
