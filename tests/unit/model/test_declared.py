"""Records and states as they are declared: kinds from hints, columns, and refusals with file and line."""

import re
import textwrap
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.contract.graph import TimeKind
from penstock.graph.arrow import arrow_type
from penstock.graph.entrypoint import run_script
from penstock.model.declared.field_kinds import BEGUN
from penstock.model.declared.record_types import MISSING, RecordType, record_type
from penstock.model.declared.state_types import StateType, state_type
from penstock.model.table_columns import Value


@ps.record
class Place:
    x: int
    y: ps.float32 = 0.0


@ps.record
class Everything:
    n: int
    small: ps.int8
    big: ps.uint64
    f: float
    half: ps.float32
    yes: bool
    text: str
    raw: bytes
    at: ps.Time
    kind: ps.Enum["NEW", "OLD"]  # noqa: F821  texts, not names
    money: ps.Decimal[12, 2]  # type: ignore[valid-type]
    free: Decimal
    pair: tuple[int, str | None]
    where: Place
    items: list[int]
    names: dict[str, float]
    deep: list[dict[str, tuple[int, Place]]]
    maybe: float | None = None
    other: "str | None" = None


ARROW = {
    "n": pa.int64(),
    "small": pa.int8(),
    "big": pa.uint64(),
    "f": pa.float64(),
    "half": pa.float32(),
    "yes": pa.bool_(),
    "text": pa.string(),
    "raw": pa.binary(),
    "at": pa.timestamp("us"),
    "kind": pa.string(),
    "money": pa.decimal128(12, 2),
    "free": pa.decimal128(38, 18),
    "pair": pa.struct([("_1", pa.int64()), ("_2", pa.string())]),
    "where": pa.struct([("x", pa.int64()), ("y", pa.float32())]),
    "items": pa.list_(pa.int64()),
    "names": pa.map_(pa.string(), pa.float64()),
    "maybe": pa.float64(),
    "other": pa.string(),
}


def of_record(cls: type) -> RecordType:
    found = record_type(cls)
    assert found is not None
    return found


def of_state(cls: type) -> StateType:
    found = state_type(cls)
    assert found is not None
    return found


def test_every_hint_has_its_arrow_type() -> None:
    types = {name: arrow_type(text) for name, text in of_record(Everything).columns}
    deep = types.pop("deep")
    assert types == ARROW
    assert deep.value_type.key_type == pa.string()
    assert deep.value_type.item_type.field("_2").type == ARROW["where"]


def test_only_a_hint_with_none_is_nullable_and_defaults_are_kept() -> None:
    fields = {f.name: f for f in of_record(Everything).fields}
    assert [n for n, f in fields.items() if f.nullable] == ["maybe", "other"]
    assert fields["n"].default is MISSING
    assert fields["maybe"].default is None
    assert of_record(Place).field("y").default == 0.0


def test_a_record_is_a_frozen_dataclass_with_slots() -> None:
    place = Place(1)
    assert place == Place(1, 0.0)
    assert hash(place) == hash(Place(1))
    with pytest.raises(AttributeError):
        place.x = 2  # type: ignore[misc]
    assert not hasattr(place, "__dict__")


def test_two_classes_with_equal_fields_are_two_types() -> None:
    def made() -> tuple[type, type]:
        @ps.record
        class Twin:
            n: int

        @ps.state
        class Kept:
            n: int = 0

        return Twin, Kept

    (one, kept), (other, also) = made(), made()
    assert of_record(one) != of_record(other)
    assert of_state(kept) != of_state(also)
    assert of_record(one) == of_record(one)
    assert len({of_record(one), of_record(other), of_record(one)}) == 2


@ps.state(ttl="7d", time="clock")
class Kept:
    total: int = 0
    start: float = 2.5
    label: str = "new"
    kind: ps.Enum["NEW", "OLD"] = "NEW"  # noqa: F821
    seen: ps.Time | None = None
    pair: tuple[int, str] = (0, "x")
    where: Place = Place(0)
    last: ps.Ring[ps.int8, 5]  # type: ignore[valid-type]
    items: ps.List[Place]
    counts: ps.Map[str, int] = ps.field(max=10)
    ids: ps.Set[int]
    mean: ps.Aggregate[ps.mean]  # type: ignore[valid-type]
    idle: ps.Timer
    beat: ps.ClockTimer
    many: ps.Timers = ps.renamed("lots", max=7)


def test_a_state_spells_its_fields() -> None:
    kept = of_state(Kept)
    assert (kept.ttl_us, kept.time) == (7 * 86_400_000_000, TimeKind.CLOCK)
    assert str(kept) == (
        "Kept(total: int64, start: double, label: string, kind: Enum[NEW, OLD], seen: Time | None, "
        "pair: tuple[int64, string], where: Place(x: int64, y: float), last: Ring[int8, 5], "
        "items: List[Place(x: int64, y: float)], counts: Map[string, int64], ids: Set[int64], "
        "mean: Aggregate[mean, double], idle: Timer, beat: ClockTimer, many: Timers)"
    )
    assert kept.field("many").renamed == "lots"
    assert (kept.field("counts").kind.most, kept.field("ids").kind.most) == (10, 1_000_000)  # type: ignore[union-attr]


def test_a_state_lists_the_columns_that_keep_it() -> None:
    assert [(c.name, c.dtype, c.width) for c in of_state(Kept).columns] == [
        ("total", "int64", 1),
        ("start", "float64", 1),
        ("label", "bytes", 1),
        ("kind", "int8", 1),
        ("seen.set", "uint8", 1),
        ("seen", "int64", 1),
        ("pair._1", "int64", 1),
        ("pair._2", "bytes", 1),
        ("where.x", "int64", 1),
        ("where.y", "float32", 1),
        ("last", "int8", 5),
        ("last.head", "int32", 1),
        ("last.length", "int32", 1),
        ("items.first", "int64", 1),
        ("items.length", "int64", 1),
        ("counts.length", "int64", 1),
        ("ids.length", "int64", 1),
        ("mean.mean", "float64", 1),
        ("mean.mean.seen", "int64", 1),
        ("idle", "int64", 1),
        ("beat", "int64", 1),
        ("many.length", "int64", 1),
        (BEGUN, "uint8", 1),
    ]


def test_what_begins_as_zeros_needs_no_first_values() -> None:
    @ps.state
    class Zeros:
        n: int = 0
        text: str = "x"  # nothing stored is read as the default
        maybe: float | None = None
        kind: ps.Enum["A", "B"] = "A"  # noqa: F821
        pair: tuple[int, bool] = (0, False)
        last: ps.Ring[float, 3]  # type: ignore[valid-type]

    assert not of_state(Zeros).begins
    assert Value(BEGUN, "uint8") not in of_state(Zeros).columns
    assert [f.name for f in of_state(Kept).fields if not f.begins_as_zeros] == ["start", "idle", "beat"]


@pytest.mark.parametrize(("default", "zeros"), [("-0.0", False), ("0.0", True), ("1e-9", False), ("None", False)])
def test_only_positive_zero_is_zeros(default: str, zeros: bool) -> None:
    kept = state_type(vars(run(f"@ps.state\nclass S:\n    f: float | None = {default}"))["S"])
    assert kept is not None
    plain = state_type(vars(run(f"@ps.state\nclass S:\n    f: float = {default.replace('None', '1.0')}"))["S"])
    assert plain is not None
    assert (plain.begins, kept.begins) == (not zeros, default != "None")


def test_the_class_of_a_state_has_plain_values() -> None:
    kept: Any = Kept
    assert kept(total=3).total == 3
    assert kept() == kept(start=2.5)
    assert kept().last is None


def test_spans_of_time_are_microseconds() -> None:
    assert ps.days(1) == 24 * ps.hours(1) == 24 * 60 * ps.minutes(1)
    assert ps.minutes(1) == 60 * ps.seconds(1) == 60_000 * ps.milliseconds(1) == 60_000_000
    assert ps.seconds(0.5) == 500_000


# --- Refusals: (body, line of the field, message) ------------------------------------------------

RECORDS = [
    ("n: list", 3, "name the type of its items: list[int]"),
    ("n: set[int]", 3, "there are no sets in records"),
    ("n: tuple[int, ...]", 3, "a tuple has a fixed length"),
    ("n: int | str", 3, "only None may stand beside a type"),
    ("n: complex", 3, "complex is no type of a column: known are"),
    ("n: 'Unknown'", 1, "its hints cannot be read: NameError"),
    ("n: Plain", 3, "decorate Plain with @ps.record"),
    ("n: int = 'x'", 3, "the default 'x' is not of type int64"),
    ("n: int = None", 3, "the default None is not of type int64"),
    ("n: int = True", 3, "the default True is not of type int64"),
    ("n: ps.int8 = 128", 3, "the default 128 is not of type int8"),
    ("n: float = 2**53 + 1", 3, "is not of type double"),
    ("n: list[int] = []", 3, "a default of list can be changed"),
    ("n: dict[str, int] = field(default_factory=dict)", 3, "default_factory makes mutable defaults"),
    ("n: int = 0\n    m: int", 1, "non-default argument 'm' follows default argument"),
    ("n: int\n    m: str\n    n: float", 5, "two fields are named 'n'"),
    ("__n__: int", 3, "names that begin with __ belong to the engine"),
    ("pass", 1, "record R has no fields"),
    ("n: ps.Ring[int, 5]", 3, "ps.Ring[int, 5] is a field of a state: no record has it"),
    ("n: ps.Timer", 3, "ps.Timer is a field of a state"),
    ("n: ps.Out[int]", 3, "ps.Out[...] is a field of a state"),
    ("n: ps.Enum['A', 'B', 'A']", 3, "the Enum names 'A' twice"),
    ("n: ps.Enum['A', 1]", 3, "an Enum has texts, not 1"),
    ("n: ps.Enum['A', 'B'] = 'C'", 3, "the default 'C' is not of type Enum[A, B]"),
    ("n: ps.Decimal[39, 2]", 3, "write its digits (1 to 38)"),
    ("n: dict[str | None, int]", 3, "keys of a dict are never None"),
    ("n: " + "list[" * 17 + "int" + "]" * 17, 3, "the type is nested more than 16 deep"),
]
STATES = [
    ("n: list[int]", 3, "a list in a state has no bound: write ps.List[T]"),
    ("n: dict[str, int]", 3, "a dict in a state has no bound: write ps.Map[K, V]"),
    ("n: tuple[int, list[int]] | None = None", 3, "a list in a state has no bound"),
    ("n: ps.Ring", 3, "ps.Ring needs its items in brackets"),
    ("n: ps.Ring[int]", 3, "ps.Ring[int]: it takes 2 items in brackets"),
    ("n: ps.Ring[int, 0]", 3, "a Ring keeps 1 to 65536 values, not 0"),
    ("n: ps.Ring[int, 2.0]", 3, "a Ring keeps 1 to 65536 values, not 2.0"),
    ("n: ps.Ring[int, 6]\n    m: ps.Ring[int, 6.0]", 4, "a Ring keeps 1 to 65536 values, not 6.0"),
    ("n: ps.Ring[int, 70_000]", 3, "a Ring keeps 1 to 65536 values, not 70000"),
    ("n: ps.Ring[str, 5]", 3, "a Ring keeps numbers, bools, ps.Time and ps.Enum, not string"),
    ("n: ps.Ring[int | None, 5]", 3, "not int64 | None"),
    ("n: ps.List[list[int]]", 3, "a list in a state has no bound"),
    ("n: ps.Map[int | None, int]", 3, "are never None"),
    ("n: ps.Set[tuple[int, int]]", 3, "cannot be the key of a ps.Map or ps.Set"),
    ("n: ps.Aggregate[len]", 3, "Aggregate[len]: write ps.count"),
    ("n: ps.Aggregate[ps.sum, bool]", 3, "a sum adds numbers, not bool; give it an int"),
    ("n: ps.Aggregate[ps.mean, ps.Time]", 3, "a mean adds numbers, not Time; give it an int"),
    ("n: ps.Enum['A', 'B']", 3, "it has no value to begin with"),
    ("n: int = ''", 3, "the default '' is not of type int64"),
    ("n: ps.Ring[int, 5] = 0", 3, "Ring[int64, 5] of a new key is empty: it has no default"),
    ("n: ps.Timer = 0", 3, "Timer of a new key is not set: it has no default"),
    ("n: ps.List[int] = []", 3, "a default of list can be changed"),
    ("n: int = ps.field(max=3)", 3, "max= bounds ps.List, ps.Map, ps.Set and ps.Timers, not int64"),
    ("n: ps.List[int] = ps.field(max=0)", 3, "max=0 is no bound"),
    ("n: ps.List[int] = ps.field(max='x')", 3, "max='x' is no bound"),
    ("clear: int", 3, "the name belongs to the engine"),
    ("_n: int", 3, "the name belongs to the engine"),
    ("n: int\n    n: int", 4, "two fields are named 'n'"),
    ("n: int = ps.renamed('m')\n    m: int", 3, "another field has or had this name"),
    ("n: int = ps.renamed('o')\n    m: int = ps.renamed('o')", 4, "another field has or had this name"),
    ("pass", 1, "state S has no fields"),
]
TTLS = [
    ('ttl="soon"', "ttl: 'soon' is no duration"),
    ("ttl=7", "ttl: "),
    ('ttl="0s"', "forgets each key at once"),
    ('time="wall"', "time: 'wall' is not one of event, clock"),
]


def run(source: str) -> Any:
    return run_script("import penstock as ps\nfrom dataclasses import field\nclass Plain: pass\n" + source, "jobs.py:1")


def refusal(decorator: str, body: str, tmp_path: Path) -> str:
    script = f"{decorator}\nclass {'R' if 'record' in decorator else 'S'}:\n    {body}\n"
    path = tmp_path / "jobs.py"
    head = "import penstock as ps\nfrom dataclasses import dataclass, field\n@dataclass\nclass Plain:\n    n: int\n\n"
    path.write_text(head + textwrap.dedent(script))
    with pytest.raises(ps.ConfigError) as refused:
        run_script(path.read_text(), f"{path}:1", str(path))
    return str(refused.value)


@pytest.mark.parametrize(("body", "line", "message"), RECORDS)
def test_a_bad_record_is_refused_with_its_line(body: str, line: int, message: str, tmp_path: Path) -> None:
    text = refusal("@ps.record", body, tmp_path)
    assert re.match(rf"[^ ]*jobs\.py:{6 + line}: ", text), text
    assert message in text


@pytest.mark.parametrize(("body", "line", "message"), STATES)
def test_a_bad_state_is_refused_with_its_line(body: str, line: int, message: str, tmp_path: Path) -> None:
    text = refusal("@ps.state", body, tmp_path)
    assert re.match(rf"[^ ]*jobs\.py:{6 + line}: ", text), text
    assert message in text


@pytest.mark.parametrize(("options", "message"), TTLS)
def test_a_bad_ttl_is_refused_with_its_line(options: str, message: str, tmp_path: Path) -> None:
    text = refusal(f"@ps.state({options})", "n: int", tmp_path)
    assert "jobs.py:7" in text
    assert message in text
