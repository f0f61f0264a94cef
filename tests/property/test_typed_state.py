"""A state that a function writes through its proxy agrees with plain Python values; a failed record leaves nothing.

A record is some changes of the state of its key. The model keeps each key as an object of the user's
class with lists for rings. A record that fails is undone: afterwards every column of its row has the
bytes that it had before, and the model has not changed.
"""

import copy
import math
from collections import deque
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.contract.keygroups import Range
from penstock.contract.settings import StateSettings
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.model.declared.field_kinds import RingField
from penstock.model.declared.state_types import StateType, state_type
from penstock.model.keys import KeyCodec
from penstock.model.table_columns import BYTES
from penstock.steps.base import StateSchema
from penstock.steps.typed.bound_table import BoundTable
from penstock.steps.typed.state_rows import StateRows
from penstock.steps.typed.undo_log import UndoLog

GROUPS = 4
CODEC = KeyCodec((pa.string(),), GROUPS)


@ps.record
class Place:
    x: int
    name: str = "here"


@ps.state
class Everything:
    total: int = 0
    tiny: ps.int8 = 7
    big: ps.uint64
    mean: float = -0.0
    half: ps.float32
    yes: bool = True
    label: str = "new"
    other: str | None = None
    first: str | None = "first"
    raw: bytes
    money: ps.Decimal[6, 2]  # type: ignore[valid-type]
    kind: ps.Enum["NEW", "OLD", "Ünd"] = "OLD"  # noqa: F821
    seen: ps.Time | None = None
    limit: float | None = 2.5
    pair: tuple[int, str | None] = (3, None)
    where: Place = Place(0)
    maybe: Place | None = None
    last: ps.Ring[ps.int8, 3]  # type: ignore[valid-type]
    one: ps.Ring[float, 1]  # type: ignore[valid-type]
    kinds: ps.Ring[ps.Enum["a", "b"], 2]  # type: ignore[valid-type] # noqa: F821
    idle: ps.Timer


@ps.state
class Zeros:
    total: int = 0
    label: str = "new"
    last: ps.Ring[ps.int8, 3]  # type: ignore[valid-type]


def typed(cls: type) -> StateType:
    found = state_type(cls)
    assert found is not None
    return found


def texts() -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=3)


INT8S, INT64S = st.integers(-128, 127), st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats()
PLACES = st.builds(Place, INT64S, texts())
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "total": INT64S,
    "tiny": INT8S,
    "big": st.integers(0, 2**64 - 1),
    "mean": FLOATS,
    "half": st.floats(width=32),
    "yes": st.booleans(),
    "label": texts(),
    "other": st.none() | texts(),
    "first": st.none() | texts(),
    "raw": st.binary(max_size=3),
    "money": st.decimals("-9999.99", "9999.99", places=2),
    "kind": st.sampled_from(["NEW", "OLD", "Ünd"]),
    "seen": st.none() | st.integers(-(2**63) + 1, 2**63 - 1),
    "limit": st.none() | FLOATS,
    "pair": st.tuples(INT64S, st.none() | texts()),
    "where": PLACES,
    "maybe": st.none() | PLACES,
    "idle": st.none() | st.integers(-(2**63) + 1, 2**63 - 1),
}
UNFIT: dict[str, Any] = {
    "total": "x",
    "tiny": 128,
    "big": -1,
    "mean": "1",
    "half": 1e300,
    "yes": 2,
    "label": None,
    "other": b"x",
    "first": "\ud800",
    "raw": "x",
    "money": Decimal("0.001"),
    "kind": "MISSING",
    "seen": -(2**63),
    "limit": "x",
    "pair": (1, 2),
    "where": None,
    "maybe": Place("x"),  # type: ignore[arg-type]
    "idle": 1.5,
}
RINGS: dict[str, st.SearchStrategy[Any]] = {"last": INT8S, "one": FLOATS, "kinds": st.sampled_from(["a", "b"])}

Change = tuple[str, str, Any]
CHANGES: st.SearchStrategy[Change] = st.one_of(
    *(st.tuples(st.just("set"), st.just(name), values) for name, values in VALUES.items()),
    *(st.tuples(st.just("append"), st.just(name), values) for name, values in RINGS.items()),
    st.tuples(st.just("empty"), st.sampled_from(list(RINGS)), st.none()),
    st.tuples(st.just("unfit"), st.sampled_from(list(UNFIT)), st.none()),
    st.just(("clear", "", None)),
)
RECORDS = st.tuples(st.sampled_from("ABC"), st.lists(CHANGES, max_size=6), st.booleans())


class Table:
    """A table of the rows of a state, and a function's view of it."""

    def __init__(self, cls: type) -> None:
        self.state = typed(cls)
        self.columns = self.state.columns
        self.kept = KeyedStateBackend(StateSettings(), (Range(0, GROUPS),), GROUPS)
        self.table = self.kept.open(StateSchema("s", (("k", pa.string()),), self.columns))
        self.log = UndoLog()
        self.rows = StateRows(self.state, self.log)

    def begin(self, keys: list[str]) -> list[int]:
        found = self.table.rows(CODEC.keys([pa.array(keys, pa.string())]))
        self.bound = BoundTable(self.table, found)
        self.rows.bind(self.bound)
        return [int(row) for row in found]

    def at(self, row: int) -> Any:
        self.log.begin()
        self.rows.at(row)
        return self.rows.proxy

    def raw(self, row: int) -> list[Any]:
        """Return what is kept of a row: bytes of columns, and of values of any length as they will be stored."""
        fixed = [self.table.column(c.name)[row].tobytes() for c in self.columns if c.dtype != BYTES]
        waiting = [repr(texts[row]) for texts in self.bound._texts]
        return [*fixed, *waiting, self.rows._cleared.get(row, False)]


def model_of(state: StateType) -> dict[str, Any]:
    return {f.name: deque() if isinstance(f.kind, RingField) else f.default for f in state.fields}


def change(proxy: Any, model: dict[str, Any], state: StateType, what: Change) -> None:
    kind, name, value = what
    match kind:
        case "set":
            setattr(proxy, name, value)
            model[name] = value
        case "append":
            ring, width = model[name], state.field(name).kind.width  # type: ignore[union-attr]
            fell = ring.popleft() if len(ring) == width else None
            assert same(getattr(proxy, name).append(value), {"kinds": "a"}.get(name, 0) if fell is None else fell)
            ring.append(value)
        case "empty":
            getattr(proxy, name).clear()
            model[name].clear()
        case "unfit":
            before = getattr(proxy, name)
            with pytest.raises((TypeError, ValueError), match=rf"^{state.name}.{name} cannot hold "):
                setattr(proxy, name, UNFIT[name])
            assert same(getattr(proxy, name), before)
        case _:
            proxy.clear()
            model.update(model_of(state))


def same(one: object, other: object) -> bool:
    """Compare values; all NaN are one, and zeros of both signs are two."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return one == other and (not isinstance(one, float) or repr(one) == repr(float(other)))  # type: ignore[arg-type]


def check(proxy: Any, model: dict[str, Any]) -> None:
    for name, expected in model.items():
        found = getattr(proxy, name)
        if isinstance(expected, deque):
            assert len(found) == len(expected)
            assert all(map(same, found, expected)), name
            assert all(same(found[i - len(expected)], v) for i, v in enumerate(expected)), name
        else:
            assert same(found, expected), (name, found, expected)


@given(st.lists(st.lists(RECORDS, min_size=1, max_size=4), max_size=5))
def test_proxies_agree_with_plain_values_and_a_failed_record_leaves_nothing(batches: list[list[Any]]) -> None:
    table, models = Table(Everything), dict[str, dict[str, Any]]()
    for records in batches:
        rows = table.begin([key for key, _, _ in records])
        for row, (key, changes, fails) in zip(rows, records, strict=True):
            raw = table.raw(row)
            model = copy.deepcopy(models.get(key, model_of(table.state)))
            proxy = table.at(row)
            check(proxy, model)
            for each in changes:
                change(proxy, model, table.state, each)
                check(proxy, model)
            if fails:
                table.log.undo()
                assert table.raw(row) == raw
            else:
                models[key] = model
        table.rows.store()
    rows = table.begin(list("ABC"))
    for row, key in zip(rows, "ABC", strict=True):
        check(table.at(row), models.get(key, model_of(table.state)))


@given(st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from(["add", "append", "text", "clear", "default"]))))
def test_a_key_is_forgotten_when_it_was_cleared_and_has_its_first_values(records: list[tuple[str, str]]) -> None:
    table = Table(Zeros)
    rows = table.begin([key for key, _ in records])
    cleared, written = set(), {key: False for key, _ in records}
    for row, (key, what) in zip(rows, records, strict=True):
        proxy = table.at(row)
        match what:
            case "add":
                proxy.total += 1
            case "append":
                proxy.last.append(1)
            case "text":
                proxy.label += "x"
            case "clear":
                proxy.clear()
                cleared.add(key)
        written[key] = what in ("add", "append", "text") or (written[key] and what == "default")
    before = len(table.kept.live_rows("s"))
    table.rows.store()
    gone = {key for key in cleared if not written[key]}
    assert before - len(table.kept.live_rows("s")) == len(gone)
    assert np.all(np.isin(table.kept.live_rows("s"), rows))


def test_a_full_ring_gives_its_oldest_value_and_keeps_the_order() -> None:
    table = Table(Zeros)
    (row,) = table.begin(["A"])
    last = table.at(row).last
    assert [last.append(n) for n in range(1, 9)] == [0, 0, 0, 1, 2, 3, 4, 5]
    assert list(last) == [6, 7, 8]


def test_a_record_of_which_one_field_does_not_fit_is_not_written_at_all() -> None:
    table = Table(Everything)
    (row,) = table.begin(["A"])
    proxy = table.at(row)
    with pytest.raises(TypeError, match=r"^Everything.where cannot hold "):
        proxy.where = Place(5, 3)  # type: ignore[arg-type]
    table.rows.store()
    table.begin(["A"])
    assert table.at(row).where == Place(0)
