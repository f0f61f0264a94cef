"""Which calls count as outgoing in the conformance kit, and before which of them a process is stopped."""

import os

import pytest
import yaml

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
