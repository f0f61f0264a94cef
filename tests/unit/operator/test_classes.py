"""The table of what a change does: complete, exact, and independent of a value's notation."""

import pytest

from penstock.contract.schema import Change, Plain
from penstock_operator.api.classes import (
    changes,
    digest_of,
    refused,
)

SPEC: dict[str, Plain] = {
    "image": "i",
    "job": {"entrypoint": "jobs:count"},
    "checkpoint": {"volume": {"claimName": "c"}},
}


def test_every_field_says_what_its_change_does() -> None:
    assert {each.change for each in changes()} == set(Change)


def test_what_a_change_does_is_said_of_all_fields_below() -> None:
    found = {each.path: each.change for each in changes()}
    assert found["checkpoint.interval"] is Change.RESTART
    assert found["checkpoint.volume.claimName"] is Change.REFUSE
    assert found["restore.path"] is Change.IGNORE
    assert found["restore.nonce"] is Change.RESTART


@pytest.mark.parametrize(
    ("field", "value"),
    [("replicas", 4), ("suspend", True), ("maxReplicas", 9), ("deletionPolicy", "Purge")],
)
def test_a_field_that_does_not_restart_leaves_the_digest(field: str, value: Plain) -> None:
    assert digest_of({**SPEC, field: value}) == digest_of(SPEC)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("image", "other"),
        ("restartNonce", 1),
        ("env", [{"name": "A", "value": "1"}]),
        ("shuffle", {"flushInterval": "9ms"}),
        ("security", {"mtls": False}),
        ("restore", {"nonce": "1", "path": "p"}),
    ],
)
def test_a_field_that_restarts_changes_the_digest(field: str, value: Plain) -> None:
    assert digest_of({**SPEC, field: value}) != digest_of(SPEC)


def test_spelling_and_defaults_restart_nothing() -> None:
    short: Plain = {**SPEC, "checkpoint": {"volume": {"claimName": "c"}, "interval": "1m"}}
    long: Plain = {**SPEC, "checkpoint": {"volume": {"claimName": "c"}, "interval": "60s"}}
    filled: Plain = {**SPEC, "shuffle": {"flushInterval": "5ms"}, "security": {"mtls": True}}
    assert digest_of(short) == digest_of(long)
    assert digest_of(filled) == digest_of(SPEC)


def test_a_path_without_a_nonce_asks_for_nothing() -> None:
    one: Plain = {**SPEC, "restore": {"nonce": "1", "path": "a"}}
    two: Plain = {**SPEC, "restore": {"nonce": "1", "path": "b"}}
    assert digest_of(one) == digest_of(two)


def test_what_may_never_change_is_named() -> None:
    changed: Plain = {**SPEC, "maxKeyGroups": 8, "checkpoint": {"volume": {"claimName": "d"}}}
    assert refused(SPEC, changed) == ["checkpoint.volume.claimName", "maxKeyGroups"]
