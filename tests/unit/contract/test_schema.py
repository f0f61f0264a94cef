"""A class whose attributes are annotated becomes rows: type, default, bounds and texts of each."""

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Annotated

import pytest

from penstock.base.errors import ConfigError
from penstock.base.values import replace
from penstock.contract.schema import (
    Duration,
    DurationUs,
    Field,
    FieldRow,
    Fields,
    Kind,
    ObjectName,
    Quantity,
    Rule,
    row_of,
    rows_of,
)

WIDE = Rule("self.size < 9", "size must be below 9", path=".size")


class Colour(StrEnum):
    RED = "Red"
    BLUE = "Blue"


@dataclass(frozen=True, slots=True)
class Inner(Fields):
    RULES = (WIDE,)

    name: Annotated[ObjectName, Field("name", "its name")]
    size: Annotated[int, Field("size", "its size", minimum=1)] = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer(Fields):
    ONE_OF = ("inner", "items")

    every_s: Annotated[Duration, Field("every", "how often", minimum="1s")] = 0.25
    late_us: Annotated[DurationUs | None, Field("late", "how late")] = None
    room_bytes: Annotated[Quantity, Field("room", "how much")] = 8 * 1024**2
    colour: Annotated[Colour, Field("colour", "which one")] = Colour.BLUE
    note: Annotated[str, Field("note", "what for")] = ""
    share: Annotated[float, Field("share", "how busy", maximum=1)] = 1.0
    inner: Annotated[Inner | None, Field("inner", "one")] = None
    items: Annotated[tuple[Inner, ...], Field("items", "many", key="name")] = ()
    names: Annotated[tuple[ObjectName, ...], Field("names", "some", unique=True)] = ()
    labels: Annotated[dict[str, Annotated[str, Field(length_max=9)]], Field("labels", "by name", length_max=7)] = field(
        default_factory=dict
    )
    must: Annotated[bool, Field("must", "is needed")]


ROWS: dict[str, FieldRow] = {row.name: row for row in rows_of(Outer)}


def test_rows_come_in_the_order_of_the_class() -> None:
    assert [row.target for row in ROWS.values()] == [each.name for each in fields(Outer)]


def test_types_say_the_kind() -> None:
    kinds = {name: row.kind for name, row in ROWS.items()}
    assert kinds == {
        "every": Kind.DURATION_S,
        "late": Kind.DURATION_US,
        "room": Kind.QUANTITY,
        "colour": Kind.CHOICE,
        "note": Kind.TEXT,
        "share": Kind.NUMBER,
        "inner": Kind.OBJECT,
        "items": Kind.LIST,
        "names": Kind.LIST,
        "labels": Kind.TEXT_MAP,
        "must": Kind.BOOLEAN,
    }


def test_defaults_are_written_as_in_the_file() -> None:
    defaults = {name: row.default for name, row in ROWS.items() if row.default is not None}
    assert defaults == {"every": "250ms", "room": "8Mi", "colour": "Blue", "note": "", "share": 1.0}
    assert isinstance(defaults["share"], float)  # 1 for 1.0 would change the digest of a job


def test_only_a_field_without_a_default_must_be_there() -> None:
    assert [name for name, row in ROWS.items() if row.required] == ["must"]


def test_an_object_brings_its_rows_and_rules() -> None:
    assert [row.name for row in ROWS["inner"].fields] == ["name", "size"]
    assert ROWS["items"].item().rules == (WIDE,)
    assert ROWS["inner"].make is Inner


def test_what_is_said_of_a_type_holds_for_each_of_a_list_or_map() -> None:
    assert ROWS["names"].pattern == ROWS["inner"].fields[0].pattern != ""
    assert (ROWS["labels"].length_max, ROWS["labels"].item_length_max) == (7, 9)


def test_a_text_may_be_empty_where_that_is_its_default() -> None:
    assert ROWS["note"].length_min == 0
    assert ROWS["inner"].fields[0].length_min == 1


def test_an_attribute_that_says_nothing_is_not_in_the_file() -> None:
    @dataclass(frozen=True, slots=True)
    class Half(Fields):
        shown: Annotated[int, Field("shown", "in the file")] = 1
        hidden: int = 2

    assert [row.name for row in rows_of(Half)] == ["shown"]


def test_a_row_stands_for_itself() -> None:
    made = FieldRow("call", Kind.OBJECT, "made by hand", fields=rows_of(Inner), make=dict)

    @dataclass(frozen=True, slots=True)
    class Holder(Fields):
        found: Annotated[dict[str, str] | None, made] = None

    assert rows_of(Holder) == (replace(made, attribute="found"),)


def test_the_field_of_an_attribute_wins_over_that_of_its_type() -> None:
    assert row_of(Annotated[ObjectName, Field("name", "its name", rule="short")]).rule == "short"


def test_a_broken_rule_shows_the_values_behind_the_names_of_their_fields() -> None:
    WIDE.refuse(broken=False, values={"size": 9})
    with pytest.raises(ConfigError, match=r"^size \(9\) must be below 9$"):
        WIDE.refuse(broken=True, values={"size": 9})
