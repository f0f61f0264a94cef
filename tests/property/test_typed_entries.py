"""Lists, maps, sets and timers of a state agree with plain Python containers; a failed record leaves nothing.

A record is some changes of the containers of its key. Each batch is stored; between batches the state may be
restored from its files. The model has a deque, a dict and two sets for each key. After every change, what the
function sees is the model's: all entries in order, or a change that is refused by name.
"""

import copy
from collections import deque
from decimal import Decimal
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Range
from penstock.contract.settings import StateSettings
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.model.declared.state_types import state_type
from penstock.model.keys import KeyCodec
from penstock.protocol.state_entries import Files
from penstock.steps.base import StateSchema
from penstock.steps.typed import entry_tables
from penstock.steps.typed.bound_table import BoundTable
from penstock.steps.typed.entry_tables import children_of
from penstock.steps.typed.state_rows import StateRows
from penstock.steps.typed.undo_log import UndoLog
from penstock.storage.blobs import DirectoryBlobStore

GROUPS, MOST = 4, 6
CODEC = KeyCodec((pa.string(),), GROUPS)


@ps.record
class Place:
    x: int
    name: str | None = None


@ps.state
class Kept:
    total: int = 3
    places: ps.List[Place] = ps.field(max=MOST)
    notes: ps.List[str | None] = ps.field(max=MOST)
    counts: ps.Map[str, int] = ps.field(max=MOST)
    prices: ps.Map[int, tuple[float, str]] = ps.field(max=MOST)
    money: ps.Map[ps.Decimal[6, 2], bool] = ps.field(max=MOST)  # type: ignore[valid-type]
    kinds: ps.Map[ps.Enum["b", "a"], bytes] = ps.field(max=MOST)  # noqa: F821
    seen: ps.Set[float] = ps.field(max=MOST)
    times: ps.Timers = ps.field(max=MOST)


TYPE = state_type(Kept)
assert TYPE is not None
SCHEMA = StateSchema("s", (("k", pa.string()),), TYPE.columns, children=children_of(TYPE))
INT64S = st.integers(-(2**63), 2**63 - 1)
KEYS: dict[str, st.SearchStrategy[Any]] = {
    "counts": st.sampled_from(["", "a", "ab", "b", "ä", "\0"]),
    "prices": st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1]),
    "money": st.sampled_from([Decimal(n) / 4 for n in range(-3, 4)]),
    "kinds": st.sampled_from(["a", "b"]),
    "seen": st.sampled_from([-0.0, 0.0, 1.5, -1.5, float("inf"), -1e300, 2.0, 3.0]),
    "times": st.sampled_from([-(2**62), -1, 0, 1, 2, 3, 4]),
}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "places": st.builds(Place, INT64S, st.none() | st.text("aä", max_size=2)),
    "notes": st.none() | st.text("aä", max_size=2),
    "counts": INT64S,
    "prices": st.tuples(st.floats(allow_nan=False), st.text("aä", max_size=2)),
    "money": st.booleans(),
    "kinds": st.binary(max_size=2),
}
LISTS, MAPS, SETS = ("places", "notes"), ("counts", "prices", "money", "kinds"), ("seen", "times")
Change = tuple[str, str, Any, Any]
CHANGES: st.SearchStrategy[Change] = st.one_of(
    *(st.tuples(st.just("append"), st.just(n), st.none(), VALUES[n]) for n in LISTS for _ in range(3)),
    *(st.tuples(st.just("replace"), st.just(n), st.integers(-MOST, MOST), VALUES[n]) for n in LISTS),
    st.tuples(st.just("popleft"), st.sampled_from(LISTS), st.none(), st.none()),
    *(st.tuples(st.just("put"), st.just(n), KEYS[n], VALUES[n]) for n in MAPS),
    *(st.tuples(st.sampled_from(["pop", "del", "look"]), st.just(n), KEYS[n], st.none()) for n in MAPS),
    *(st.tuples(st.sampled_from(["add", "add", "discard", "has"]), st.just(n), KEYS[n], st.none()) for n in SETS),
    st.tuples(st.just("empty"), st.sampled_from([*LISTS, *MAPS, "seen"]), st.none(), st.none()),
    st.just(("clear", "", None, None)),
)
RECORDS = st.tuples(st.sampled_from("ABC"), st.lists(CHANGES, max_size=8), st.booleans())
POPPED = [  # a record that fails takes the first item of a list
    ([("A", [("append", "notes", None, "a")], False), ("A", [("popleft", "notes", None, None)], True)], False)
]
BATCHES = st.lists(st.tuples(st.lists(RECORDS, min_size=1, max_size=4), st.booleans()), max_size=5)


class Table:
    """A table of the state, and a function's view of it."""

    def __init__(self, folder: Path) -> None:
        self.store = DirectoryBlobStore(folder / "blobs")
        self.numbers, self.epochs = count(), count(1)
        self.log = UndoLog()
        assert TYPE is not None
        self.rows = StateRows(TYPE, self.log)
        self.open(())

    def open(self, files: Files) -> None:
        self.kept = KeyedStateBackend(StateSettings(), (Range(0, GROUPS),), GROUPS)
        self.table = self.kept.open(SCHEMA)
        self.kept.load(files, self.store)

    def restore(self) -> None:
        """Commit, and begin anew from the files."""
        cut = self.kept.flip(Epoch(next(self.epochs)))
        files = cut.write(lambda end: BlobName(f"{next(self.numbers)}{end}"), self.store)
        self.kept.close()
        self.open(files)

    def begin(self, keys: list[str]) -> list[int]:
        found = self.table.rows(CODEC.keys([pa.array(keys, pa.string())]))
        self.rows.bind(BoundTable(self.table, found))
        return [int(row) for row in found]

    def at(self, row: int) -> Any:
        self.log.begin()
        self.rows.at(row)
        return self.rows.proxy


def new_model() -> dict[str, Any]:
    lists = {name: deque[Any]() for name in LISTS}
    return {**lists, **{name: dict[Any, Any]() for name in MAPS}, **{name: set[Any]() for name in SETS}}


def change(proxy: Any, model: dict[str, Any], what: Change) -> None:
    """Make one change in the state and in the model. Both refuse it, or neither."""
    kind, name, key, value = what
    if kind == "clear":
        proxy.clear()
        model.update(new_model())
        return
    cell, plain = getattr(proxy, name), model[name]
    full = len(plain) == MOST
    if kind in ("append", "put", "add") and full and (kind == "append" or key not in plain):
        with pytest.raises(OverflowError, match=rf"^Kept\.{name} has 6 entries, and no room"):
            make(cell, kind, key, value)
        return
    before = copy.deepcopy(plain)
    try:
        expected = make(plain, kind, key, value)
    except (IndexError, KeyError) as error:
        with pytest.raises(type(error)):
            make(cell, kind, key, value)
        assert plain == before
        return
    assert make(cell, kind, key, value) == expected


def make(where: Any, kind: str, key: Any, value: Any) -> Any:
    match kind:
        case "append" | "add" | "discard":
            return getattr(where, kind)(value if kind == "append" else key)
        case "replace" | "put":
            where[key] = value
        case "popleft":
            return where.popleft()
        case "pop":
            return where.pop(key, "none")
        case "del":
            del where[key]
        case "look":
            return (key in where, where.get(key), where[key])
        case "has":
            return key in where
        case _:
            where.clear()
    return None


def check(proxy: Any, model: dict[str, Any]) -> None:
    assert proxy.total == 3
    for name, plain in model.items():
        cell = getattr(proxy, name)
        assert len(cell) == len(plain)
        if name in LISTS:
            assert list(cell) == list(plain)
            assert [cell[i - len(plain)] for i in range(len(plain))] == list(plain)
        elif name in SETS:
            assert list(cell) == sorted(plain)
        else:
            order = ["b", "a"].index if name == "kinds" else None
            assert list(cell.items()) == [(key, plain[key]) for key in sorted(plain, key=order)]


@pytest.mark.parametrize("few", [0, 64], ids=["read one by one", "read together"])
@given(BATCHES)
@example(POPPED)
@settings(max_examples=20)
def test_containers_agree_with_plain_ones_and_a_failed_record_leaves_nothing(few: int, batches: list[Any]) -> None:
    models: dict[str, dict[str, Any]] = {}
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setattr(entry_tables, "FEW", few)
        table = Table(Path(folder))
        for records, restored in batches:
            rows = table.begin([key for key, _, _ in records])
            for row, (key, changes, fails) in zip(rows, records, strict=True):
                model = copy.deepcopy(models.get(key, new_model()))
                proxy = table.at(row)
                for each in changes:
                    change(proxy, model, each)
                if fails:
                    table.log.undo()
                    check(table.at(row), models.get(key, new_model()))
                else:
                    models[key] = model
                    check(proxy, model)
            table.rows.store()
            if restored:
                table.restore()
        for row, key in zip(table.begin(list("ABC")), "ABC", strict=True):
            check(table.at(row), models.get(key, new_model()))


UNFIT: dict[str, tuple[str, Any, Any, str]] = {
    "item": ("append", None, 1, r"an item of Kept\.notes cannot hold 1"),
    "key": ("put", 1, 1, r"a key of Kept\.counts cannot hold 1"),
    "value": ("put", "a", "x", r"a value of Kept\.counts cannot hold 'x'"),
    "nan": ("add", float("nan"), None, r"a key of Kept\.seen cannot be nan"),
}


@pytest.mark.parametrize("what", UNFIT)
def test_values_that_do_not_fit_are_refused_by_name(what: str, tmp_path: Path) -> None:
    kind, key, value, words = UNFIT[what]
    table = Table(tmp_path)
    (row,) = table.begin(["a"])
    name = {"item": "notes", "nan": "seen"}.get(what, "counts")
    with pytest.raises((TypeError, ValueError), match=words):
        make(getattr(table.at(row), name), kind, key, value)
    check(table.at(row), new_model())


def test_a_batch_stores_only_the_entries_that_it_has_changed(tmp_path: Path) -> None:
    table = Table(tmp_path)
    (row,) = table.begin(["a"])
    for key in ("a", "b", "c"):
        table.at(row).counts[key] = 1
    table.rows.store()
    table.restore()
    (row,) = table.begin(["a"])
    assert table.at(row).counts["a"] == 1
    table.at(row).counts["b"] = 2
    table.rows.store()
    assert table.table.child("counts").table.hot.changed == 1  # type: ignore[attr-defined]


def test_containers_are_exported_for_arrow_and_loaded_again(tmp_path: Path) -> None:
    table = Table(tmp_path)
    (row,) = table.begin(["a"])
    proxy = table.at(row)
    proxy.places.append(Place(1, "x"))
    proxy.prices[2] = (0.5, "y")
    proxy.prices[-1] = (1.5, "z")
    proxy.seen.add(3.0)
    proxy.seen.add(-1.0)
    proxy.times.add(9)
    exported = {name: getattr(proxy, name).export() for name in ("places", "prices", "seen", "times")}
    assert pa.array([exported["places"]]).to_pylist() == [[{"x": 1, "name": "x"}]]
    assert exported["prices"] == [(-1, {"_1": 1.5, "_2": "z"}), (2, {"_1": 0.5, "_2": "y"})]
    assert (exported["seen"], exported["times"]) == ([-1.0, 3.0], [9])
    loaded = {"places": [Place(2)], "prices": {5: (1.0, "w")}, "seen": [7.0], "times": None}
    for name, value in loaded.items():
        getattr(proxy, name).load(value)
    check(proxy, new_model() | {"places": deque([Place(2)]), "prices": {5: (1.0, "w")}, "seen": {7.0}})
