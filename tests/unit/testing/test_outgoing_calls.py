"""Which calls count as outgoing in the conformance kit, and before which of them a process is stopped."""

import os

import pytest
import yaml
from pyiceberg.table.update import AssertRefSnapshotId

from penstock.testing.connectors.outgoing_calls import Action, Effects


def load() -> None:
    yaml.safe_load("a: 1")


def locked() -> None:
    load()


def test_a_call_into_an_installed_package_counts_once_from_outside() -> None:
    effects = Effects()
    with effects.watched():
        load()
    assert [place for place in effects.places if place in ("safe_load", "load", "get_single_data")] == ["safe_load"]


def test_what_pydantic_calls_while_it_converts_a_model_does_not_count() -> None:
    effects, model = Effects(), AssertRefSnapshotId(ref="main")
    with effects.watched():
        text = model.model_dump_json()
    assert "snapshot-id" in text, "it was made by a function of the client"
    assert effects.places == ["model_dump_json"], "what this test calls"


@pytest.mark.parametrize(("action", "hit_at"), [(Action.STOP, 2), (Action.KILL, 1)])
def test_a_process_is_stopped_behind_a_lock_and_killed_inside(
    action: Action, hit_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects, hits = Effects(1, action, ["locked"]), list[int]()
    monkeypatch.setattr(os, "kill", lambda _process, _signal: hits.append(effects.calls))
    with effects.watched():
        locked()
        load()
    assert hits == [hit_at]
