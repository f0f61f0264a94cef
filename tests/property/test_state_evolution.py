"""A state with types whose class changes between restores agrees with plain Python values.

A class of states has some of the fields below, in any order. Between cuts, crashes, rescales and rows that move to
disk, the job goes on with another class: fields are added, dropped and renamed, and their types get wider. The model
keeps each key as a dict, and :func:`evolved` is all that it knows of a change.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.base.limits import STATE_TABLE_ROWS_MIN
from penstock.keyed_state.state_files import BlockReader
from penstock.keyed_state.stored_schema import described, stored_schema
from penstock.model.declared.state_types import state_type
from penstock.model.keys import KeyCodec
from penstock.steps.base import StateSchema
from penstock.steps.typed.bound_table import BoundTable
from penstock.steps.typed.evolving_schema import evolving_schema
from penstock.steps.typed.state_rows import StateRows
from penstock.steps.typed.undo_log import UndoLog
from tests.support.state_under_change import GROUPS, StateUnderChange

CODEC = KeyCodec((pa.string(),), GROUPS)
NAMES = [f"key-{i}" for i in range(2 * STATE_TABLE_ROWS_MIN)]
GROUP_OF: dict[str, int] = dict(zip(NAMES, CODEC.keys([pa.array(NAMES, pa.string())]).groups.tolist(), strict=True))
FEW = 30  # keys that are used again and again


@ps.record
class Place:
    x: int
    name: str | None = None


@dataclass(frozen=True)
class Form:
    """A type that a field may have: its hint, its default, a value of a number, and how a function writes it."""

    hint: Any
    default: Any = None
    value: Callable[[int], Any] = int
    how: str = "set"
    width: int = 0

    def write(self, proxy: Any, name: str, value: Any) -> None:
        kept = getattr(proxy, name)
        match self.how:
            case "set":
                setattr(proxy, name, value)
            case "append":
                kept.append(value)
            case "put":
                kept[value[0]] = value[1]
            case "add":
                kept.add(value)

    def after(self, before: Any, value: Any) -> Any:
        match self.how:
            case "set":
                return value
            case "append":
                return (*before, value)[-self.width :]
            case "put":
                return tuple(sorted({**dict(before), value[0]: value[1]}.items()))
            case _:
                return tuple(sorted({*before, value}))

    def taken_over(self, value: Any) -> Any:
        """Return a value of an earlier form as one of this form."""
        if self.hint in (ps.float32, float) and value is not None:
            return float(value)
        return value[-self.width :] if self.width else value


def ring(kind: Any, width: int) -> Form:
    hint: Any = ps.Ring[kind, width]  # type: ignore[valid-type]
    return Form(hint, (), lambda n: n % 100, "append", width)


POOL: dict[str, list[Form]] = {
    "total": [
        Form(ps.int8, 7, lambda n: n % 100),
        Form(ps.int16, 0, lambda n: 7 * n),
        Form(ps.int32, 7, lambda n: 1 << 30),
        Form(int, 8, lambda n: n << 40),
        Form(int | None, None, lambda n: n << 40 if n % 3 else None),
    ],
    "plus": [Form(ps.uint8, 0), Form(ps.uint32, 9), Form(ps.int64, -1)],
    "mean": [Form(ps.int16, 3), Form(ps.float32, 0.5, lambda n: n / 4), Form(float, -0.0, lambda n: n / 1024)],
    "yes": [Form(bool, True, lambda n: n % 2 == 0)],
    "label": [
        Form(str, "", "text {}".format),
        Form(str, "new", "text {}".format),
        Form(str | None, "first", lambda n: None if n % 3 else f"{n}"),
        Form(str | None, None, lambda n: None if n % 3 else f"{n}"),
    ],
    "kind": [
        Form(ps.Enum["NEW", "OLD"], "OLD", lambda n: ("NEW", "OLD")[n % 2]),
        Form(ps.Enum["NEW", "OLD", "ODD"], "NEW", lambda n: ("NEW", "OLD", "ODD")[n % 3]),
    ],
    "pair": [Form(tuple[int, str | None], (3, None), lambda n: (n, f"{n}" if n % 2 else None))],
    "where": [
        Form(Place, Place(1), lambda n: Place(n, "there")),
        Form(Place | None, None, lambda n: Place(n, "there") if n % 3 else None),
    ],
    "idle": [Form(ps.Timer, None, lambda n: n + 1 if n % 3 else None)],
    "last": [ring(ps.int8, 3), ring(ps.int16, 1), ring(int, 5)],
    "items": [
        Form(ps.List[ps.int8], (), lambda n: n % 100, "append"),
        Form(ps.List[int | None], (), lambda n: n << 40 if n % 3 else None, "append"),
    ],
    "counts": [
        Form(ps.Map[int, ps.uint8], (), lambda n: (n % 5, n % 7), "put"),
        Form(ps.Map[int, int], (), lambda n: (n % 5, -n << 40), "put"),
    ],
    "by_kind": [
        Form(ps.Map[ps.Enum["a", "b"], str], (), lambda n: ("ab"[n % 2], f"{n}"), "put"),
        Form(ps.Map[ps.Enum["a", "b", "c"], str | None], (), lambda n: ("abc"[n % 3], None if n % 2 else ""), "put"),
    ],
    "seen": [
        Form(ps.Set[ps.Enum["a", "b"]], (), lambda n: "ab"[n % 2], "add"),
        Form(ps.Set[ps.Enum["a", "b", "c"]], (), lambda n: "abc"[n % 3], "add"),
    ],
}
Row = dict[str, Any]


@dataclass(frozen=True)
class Field:
    """A field of a version. Its name ends with how often it was renamed."""

    kind: str
    names: int
    wide: int

    @property
    def name(self) -> str:
        return f"{self.kind}_{self.names}"

    @property
    def before(self) -> str:
        return f"{self.kind}_{self.names - 1}"

    @property
    def form(self) -> Form:
        return POOL[self.kind][min(self.wide, len(POOL[self.kind]) - 1)]


Version = tuple[Field, ...]


@st.composite
def versions_of_a_class(draw: st.DrawFn) -> list[Version]:
    """Draw versions with some of the fields each. From one to the next some are renamed, and some get wider."""
    found: list[Version] = []
    names, wide = dict.fromkeys(POOL, 0), dict.fromkeys(POOL, 0)
    for _ in range(draw(st.integers(2, 5))):
        chosen = draw(st.lists(st.sampled_from(list(POOL)), min_size=1, max_size=6, unique=True))
        found.append(tuple(Field(kind, names[kind], wide[kind]) for kind in chosen))
        for kind in POOL:
            names[kind] += draw(st.integers(0, 3)) == 0
            wide[kind] += draw(st.integers(0, 1))
    return found


def first_row(version: Version) -> Row:
    return {each.name: each.form.default for each in version}


def evolved(row: Row, version: Version) -> Row:
    """Return a row as the class of another version takes it over."""
    found = {}
    for each in version:
        stored = [name for name in (each.name, each.before) if name in row]
        found[each.name] = each.form.taken_over(row[stored[0]]) if stored else each.form.default
    return found


def class_of(version: Version) -> type:
    namespace: dict[str, Any] = {"__annotations__": {each.name: each.form.hint for each in version}}
    for each in version:
        default = {} if each.form.how != "set" or each.form.hint is ps.Timer else {"default": each.form.default}
        namespace[each.name] = ps.renamed(each.before, **default) if each.names else ps.field(**default)
    return ps.state(type("State", (), namespace | {"__module__": __name__}))


class Evolving(StateUnderChange[str, Row]):
    """The state of a class that changes."""

    def __init__(self, folder: Path, versions: list[Version]) -> None:
        self.versions = versions
        self.number = 0
        super().__init__(folder, self.schema_of(0))

    def schema_of(self, number: int) -> StateSchema:
        self.version = self.versions[min(number, len(self.versions) - 1)]
        found = state_type(class_of(self.version))
        assert found is not None
        self.rows_of = StateRows(found, UndoLog())
        return evolving_schema("s", (("k", pa.string()),), found)

    def group(self, key: str) -> int:
        return GROUP_OF[key]

    def copied(self, rows: dict[str, Row]) -> dict[str, Row]:
        return {name: evolved(row, self.version) for name, row in rows.items()}

    def change(self, random: np.random.Generator, wanted: int) -> None:
        """Go on with the next class from a savepoint, or else from the last commit."""
        if wanted % 4:
            self.save(random, wanted)
        self.number += 1
        self.schema = self.schema_of(self.number)
        self.restore(random, wanted)

    def save(self, random: np.random.Generator, wanted: int) -> None:
        """Cut and commit."""
        self.barrier(random, wanted)
        self.commit(random, wanted)

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
            field = self.version[number % len(self.version)]
            value = field.form.value(number % 251)
            field.form.write(proxy, field.name, value)
            row = self.rows.setdefault(name, first_row(self.version))
            row[field.name] = field.form.after(row[field.name], value)

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
            found = {each.name: plain(getattr(proxy, each.name)) for each in self.version}
            row = self.rows.setdefault(name, first_row(self.version))  # a look begins a key
            assert repr(found) == repr(row), name

        self.each(names, check)


def plain(value: Any) -> Any:
    """Return what the model has for a value that a function gets."""
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, int | float | tuple | Place):
        return value
    entries = value.items() if hasattr(value, "items") else value
    return tuple(tuple(map(plain, each)) if isinstance(each, tuple) else plain(each) for each in entries)


WHAT = (
    *("put", "put", "put", "look", "clear", "barrier", "copy", "commit", "save", "change", "change", "change"),
    *("restore", "lose", "gain", "squeeze", "squeeze"),
)
RENAMED_LONG_AGO = [  # the second change finds the field under its present name
    (Field("total", names=0, wide=0),),
    (Field("total", names=1, wide=0),),
    (Field("total", names=1, wide=0), Field("yes", names=0, wide=0)),
]
STEPS = st.lists(st.tuples(st.sampled_from(WHAT), st.integers(1, 300)), min_size=12, max_size=40)


@given(versions_of_a_class(), STEPS, st.integers(0, 2**32))
@example(RENAMED_LONG_AGO, [("change", 1), ("put", 99), ("change", 1)], 0)
@settings(max_examples=15, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_fields_that_change_are_as_in_plain_python(
    versions: list[Version], steps: list[tuple[str, int]], seed: int
) -> None:
    random = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        subject = Evolving(Path(folder), versions)
        subject.put(random, 2 * STATE_TABLE_ROWS_MIN)  # enough to move some to disk
        for what, number in steps:
            perform: Callable[[np.random.Generator, int], None] = getattr(subject, what)
            perform(random, number)
        subject.compare([name for name in NAMES if GROUP_OF[name] in subject.share])
        subject.state.close()
