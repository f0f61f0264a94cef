"""A row of a table becomes a schema: bounds, defaults, rules, and where they may not be."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from penstock.contract.schema import (
    Duration,
    Field,
    FieldRow,
    Fields,
    Kind,
    LongText,
    Quantity,
    Rule,
    object_row,
    row_of,
)
from tools.crd_schema import Place, default, schema

Width = Annotated[int, Field("width", "how wide", minimum=1, maximum=9)]
Size = Annotated[Duration, Field("size", "how long", minimum="1us")]
WIDTH = row_of(Width, 3)


@dataclass(frozen=True, slots=True)
class Box(Fields):
    name: Annotated[str, Field("name", "its name", pattern="[a-z]+")]
    size_s: Size
    width: Width = 3


@dataclass(frozen=True, slots=True)
class Inner(Fields):
    width: Width = 3


@dataclass(frozen=True, slots=True)
class Outer(Fields):
    inner: Annotated[Inner, Field("inner", "inside")] = Inner()
    note: Annotated[str | None, Field("note", "a note")] = None


@dataclass(frozen=True, slots=True)
class Disk(Fields):
    path: Annotated[str | None, Field("path", "where", cluster_required=True)] = None


@dataclass(frozen=True, slots=True)
class Steps(Fields):
    steps: Annotated[tuple[Box, ...], Field("steps", "steps", key="name")]


@dataclass(frozen=True, slots=True)
class Fixed(Fields):
    groups: Annotated[int, Field("groups", "groups", immutable=True)] = 1
    claim: Annotated[str | None, Field("claim", "a claim", immutable=True)] = None


@dataclass(frozen=True, slots=True)
class Either(Fields):
    ONE_OF = ("a", "b")
    RULES = (Rule("self.a != ''", "a is needed", path=".a"),)

    a: Annotated[str | None, Field("a", "a")] = None
    b: Annotated[str | None, Field("b", "b")] = None
    labels: Annotated[dict[str, LongText], Field("labels", "labels")] = field(default_factory=dict)


def rules(node: dict[str, Any]) -> list[str]:
    return [rule["rule"] for rule in node.get("x-kubernetes-validations", ())]


def test_a_whole_number_has_bounds_a_default_and_an_explanation() -> None:
    assert schema(WIDTH) == {
        "description": "How wide. Default: 3. At least 1 and at most 9.",
        "type": "integer",
        "format": "int64",
        "minimum": 1,
        "maximum": 9,
        "default": 3,
    }


def test_items_of_lists_get_no_defaults() -> None:
    node = schema(row_of(Annotated[tuple[Box, ...], Field("boxes", "boxes", key="name")], ()))
    assert node["x-kubernetes-list-map-keys"] == ["name"]
    assert "default" not in node["items"]["properties"]["width"]
    assert "Default: 3." in node["items"]["properties"]["width"]["description"]


def test_the_default_of_a_group_is_written_out_for_its_rules() -> None:
    outer = row_of(Annotated[Outer, Field("outer", "outside")], Outer())
    assert default(outer) == {"inner": {"width": 3}}
    assert schema(outer)["default"] == {"inner": {"width": 3}}


def test_a_group_with_a_needed_member_has_no_default() -> None:
    row = row_of(Annotated[Disk, Field("disk", "a disk")], Disk())
    assert schema(row)["required"] == ["path"]
    assert "default" not in schema(row)


AT_LEAST = "self.matches('[1-9][0-9.]*d') || duration(self) >= duration('1us')"  # CEL has no days


def test_parameters_may_stand_for_texts_but_not_for_names_of_items() -> None:
    items = schema(object_row(Steps, "graph", "steps"))["properties"]["steps"]["items"]["properties"]
    assert items["name"]["pattern"] == "^(?:[a-z]+)$"
    is_one, bound = rules(items["size"])
    assert is_one.endswith(r"|.*\$\{.*\}.*)$')")
    assert bound == f"self.contains('${{') || !{is_one} || {AT_LEAST}"


def test_durations_and_quantities_are_compared_by_cel() -> None:
    is_one, bound = rules(schema(row_of(Size)))
    assert is_one.startswith("self.matches(r'^(?:0|")
    assert bound == f"!{is_one} || {AT_LEAST}"
    assert "pattern" not in schema(row_of(Size)), "its answer would be the expression"
    memory = Annotated[Quantity, Field("memory", "budget", minimum="16Mi", maximum="1Gi")]
    assert rules(schema(row_of(memory))) == [
        "!quantity(string(self)).isLessThan(quantity('16Mi'))",
        "!quantity(string(self)).isGreaterThan(quantity('1Gi'))",
    ]


def test_immutable_fields_are_guarded_at_their_optional_parent() -> None:
    node = schema(object_row(Fixed, "disk", "a disk"))
    assert rules(node["properties"]["groups"]) == ["self == oldSelf"]
    assert rules(node["properties"]["claim"]) == []
    assert rules(node) == ["has(self.claim) == has(oldSelf.claim) && (!has(self.claim) || self.claim == oldSelf.claim)"]


def test_rules_and_alternatives() -> None:
    assert schema(object_row(Either, "x", "x"))["x-kubernetes-validations"] == [
        {
            "rule": "[has(self.a), has(self.b)].exists_one(given, given)",
            "message": "exactly one of a, b is needed",
        },
        {"rule": "self.a != ''", "message": "a is needed", "fieldPath": ".a"},
    ]


def test_lists_and_maps_of_texts_are_bounded() -> None:
    nodes = schema(row_of(Annotated[tuple[str, ...], Field("nodes", "nodes", unique=True)]))
    assert (nodes["maxItems"], nodes["items"]["maxLength"]) == (64, 253)
    assert nodes["x-kubernetes-list-type"] == "set"
    labels = schema(object_row(Either, "x", "x"))["properties"]["labels"]
    assert labels["maxProperties"] == 64
    assert labels["additionalProperties"] == {
        "description": "Labels.",
        "x-kubernetes-int-or-string": True,
        "maxLength": 4096,
    }


def test_a_row_without_bounds_gets_default_bounds() -> None:
    assert schema(FieldRow("a", Kind.TEXT, "a"), Place(item=True))["maxLength"] == 253
