"""A row of a table becomes a schema: bounds, defaults, rules, and where they may not be."""

from typing import Any

from penstock.contract.schema import (
    Row,
    Rule,
    duration,
    group,
    integer,
    listing,
    quantity,
    text,
    text_map,
    texts,
)
from tools.crd_schema import Place, default, schema

WIDTH = integer("width", "how wide", default=3, minimum=1, maximum=9)


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
    row = listing("boxes", "boxes", dict, text("name", "its name"), WIDTH, key="name")
    node = schema(row)
    assert node["x-kubernetes-list-map-keys"] == ["name"]
    assert "default" not in node["items"]["properties"]["width"]
    assert "Default: 3." in node["items"]["properties"]["width"]["description"]


def test_the_default_of_a_group_is_written_out_for_its_rules() -> None:
    inner = group("inner", "inside", dict, WIDTH, default={})
    outer = group("outer", "outside", dict, inner, text("note", "a note"), default={})
    assert default(outer) == {"inner": {"width": 3}}
    assert schema(outer)["default"] == {"inner": {"width": 3}}


def test_a_group_with_a_needed_member_has_no_default() -> None:
    row = group("disk", "a disk", dict, text("path", "where", cluster_required=True), default={})
    assert schema(row)["required"] == ["path"]
    assert "default" not in schema(row)


def test_parameters_may_stand_for_texts_but_not_for_names_of_items() -> None:
    name = text("name", "its name", pattern="[a-z]+")
    row = group("graph", "steps", dict, listing("steps", "steps", dict, name, SIZE, key="name"))
    items = schema(row)["properties"]["steps"]["items"]["properties"]
    assert items["name"]["pattern"] == "^(?:[a-z]+)$"
    is_one, bound = rules(items["size"])
    assert is_one.endswith(r"|.*\$\{.*\}.*)$')")
    assert bound == f"self.contains('${{') || !{is_one} || duration(self) >= duration('1us')"


SIZE = duration("size", "how long", minimum="1us")


def test_durations_and_quantities_are_compared_by_cel() -> None:
    is_one, bound = rules(schema(SIZE))
    assert is_one.startswith("self.matches(r'^(?:0|")
    assert bound == f"!{is_one} || duration(self) >= duration('1us')"
    assert "pattern" not in schema(SIZE), "its answer would be the expression"
    memory = quantity("memory", "budget", minimum="16Mi", maximum="1Gi")
    assert rules(schema(memory)) == [
        "!quantity(string(self)).isLessThan(quantity('16Mi'))",
        "!quantity(string(self)).isGreaterThan(quantity('1Gi'))",
    ]


def test_what_may_not_change_is_guarded_where_it_can_come_and_go() -> None:
    always = integer("groups", "groups", default=1, immutable=True)
    maybe = text("claim", "a claim", immutable=True)
    node = schema(group("disk", "a disk", dict, always, maybe))
    assert rules(node["properties"]["groups"]) == ["self == oldSelf"]
    assert rules(node["properties"]["claim"]) == []
    assert rules(node) == [
        "has(self.claim) == has(oldSelf.claim) && (!has(self.claim) || self.claim == oldSelf.claim)"
    ]


def test_rules_and_alternatives() -> None:
    rule = Rule("self.a != ''", "a is needed", path=".a")
    row = group("x", "x", dict, text("a", "a"), text("b", "b"), one_of=("a", "b"), rules=(rule,))
    assert schema(row)["x-kubernetes-validations"] == [
        {
            "rule": "[has(self.a), has(self.b)].exists_one(given, given)",
            "message": "exactly one of a, b is needed",
        },
        {"rule": "self.a != ''", "message": "a is needed", "fieldPath": ".a"},
    ]


def test_lists_and_maps_of_texts_are_bounded() -> None:
    nodes = schema(texts("nodes", "nodes", unique=True))
    assert (nodes["maxItems"], nodes["items"]["maxLength"]) == (64, 253)
    assert nodes["x-kubernetes-list-type"] == "set"
    labels = schema(text_map("labels", "labels"))
    assert labels["maxProperties"] == 64
    assert labels["additionalProperties"] == {
        "description": "Labels.",
        "x-kubernetes-int-or-string": True,
        "maxLength": 4096,
    }


def test_a_row_without_bounds_is_bounded_all_the_same() -> None:
    assert schema(Row("a", text("a", "a").kind, "a"), Place(item=True))["maxLength"] == 253
