"""Every rule refuses with words that a user can act on, in the API server and in the reader."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.base.errors import ConfigError
from penstock.contract.job_reader import read_stream_job
from penstock.contract.streamsnapshot import read_stream_snapshot
from tests.integration.kubernetes.crds.judge import Judge
from tests.integration.kubernetes.crds.samples import BAD, CHANGES, GOOD, Plain
from tools.crds import RESOURCES, definition


def reader_refusal(plain: Any) -> str | None:
    try:
        if plain["kind"] == "StreamJob":
            read_stream_job(plain, cluster=True)
        else:
            read_stream_snapshot(plain)
    except ConfigError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", GOOD)
def test_both_accept_valid_objects(judge: Judge, name: str) -> None:
    assert judge.refusal(GOOD[name]) is None
    assert reader_refusal(GOOD[name]) is None


@pytest.mark.parametrize("name", BAD)
def test_both_refuse_invalid_objects(judge: Judge, name: str) -> None:
    plain, words = BAD[name]
    refusal = judge.refusal(plain)
    assert refusal is not None
    assert words in refusal
    assert reader_refusal(plain) is not None


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_a_fixed_field_is_refused(judge: Judge, name: str) -> None:
    plain, patch, words = CHANGES[name]
    refusal = judge.change_refusal(plain, patch)
    assert refusal is not None
    assert words in refusal


def test_a_new_nonce_may_restore_another_state(judge: Judge) -> None:
    plain, patch, _ = CHANGES["another restore of the same nonce"]
    renewed = {"spec": {"restore": {**patch["spec"]["restore"], "nonce": "2"}}}
    assert judge.change_refusal(plain, renewed) is None


def rules(node: Plain) -> Iterator[str]:
    yield from (rule["message"] for rule in node.get("x-kubernetes-validations", ()))
    children = [*node.get("properties", {}).values(), node.get("items")]
    for child in (*children, node.get("additionalProperties")):
        if child is not None:
            yield from rules(child)


def test_every_rule_has_an_object_that_breaks_it() -> None:
    said = [words for _, words in BAD.values()] + [words for _, _, words in CHANGES.values()]
    for resource in RESOURCES:
        root = definition(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for message in rules(root):
            assert any(message.startswith(w) or message in w for w in said), message
