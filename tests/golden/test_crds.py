"""The definitions in crds/ are made from the tables, are current, bounded, and describe all."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tools.crds import RESOURCES, Resource, definition, render

BYTES_MAX = 256 * 1024  # what fits the annotation of a plain kubectl apply, which writes it as JSON
each_resource = pytest.mark.parametrize("resource", RESOURCES, ids=lambda r: r.kind)


def nodes(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Walk a schema: every field, every item, every value of a map."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], f"{path}.*")


def all_nodes(resource: Resource) -> list[tuple[str, dict[str, Any]]]:
    version = definition(resource)["spec"]["versions"][0]
    return list(nodes(version["schema"]["openAPIV3Schema"], ""))


@each_resource
def test_the_file_is_current(resource: Resource) -> None:
    assert resource.file.read_text(encoding="utf-8") == render(resource), "python -m tools.crds"


@each_resource
def test_plain_kubectl_apply_can_take_it(resource: Resource) -> None:
    assert len(json.dumps(definition(resource), separators=(",", ":"))) < BYTES_MAX * 3 / 4
    assert yaml.safe_load(resource.file.read_text(encoding="utf-8")) == definition(resource)


@each_resource
def test_every_field_is_explained(resource: Resource) -> None:
    silent = [path for path, node in all_nodes(resource) if not node.get("description", "")]
    assert silent == [".metadata"]  # the API server allows none there, and has its own


@each_resource
def test_everything_is_bounded(resource: Resource) -> None:
    for path, node in all_nodes(resource):
        kind = node.get("type")
        if path.split(".")[1:2] in (["metadata"], ["apiVersion"], ["kind"]):
            continue
        if kind == "string":
            assert "maxLength" in node or "enum" in node, path
        if kind == "array":
            assert "maxItems" in node, path
            assert "x-kubernetes-list-type" in node, path
        if "additionalProperties" in node:
            assert "maxProperties" in node, path
        if kind == "object":
            assert {"properties", "additionalProperties"} & node.keys() or node.get(
                "x-kubernetes-preserve-unknown-fields"
            ), path


def test_unknown_fields_are_kept_in_the_pod_template_only() -> None:
    kept = [
        path
        for resource in RESOURCES
        for path, node in all_nodes(resource)
        if node.get("x-kubernetes-preserve-unknown-fields")
    ]
    assert kept == [".spec.podTemplate.spec"]


@each_resource
def test_patterns_are_of_the_syntax_that_both_sides_share(resource: Resource) -> None:
    for path, node in all_nodes(resource):
        pattern = node.get("pattern", "^$")
        assert pattern.startswith("^"), path
        assert pattern.endswith("$"), path
        # what RE2 lacks, and what Python reads as Unicode and RE2 as ASCII
        assert not any(mark in pattern for mark in ("(?!", "(?=", "(?<", r"\w", r"\d", r"\s")), path
