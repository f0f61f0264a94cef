"""Which calls count as outgoing in the conformance kit."""

import yaml

from penstock.testing.connectors.outgoing_calls import Effects


def test_a_call_into_an_installed_package_counts_once_from_outside() -> None:
    effects = Effects()
    with effects.watched():
        yaml.safe_load("a: 1")
    assert [place for place in effects.places if place in ("safe_load", "load", "get_single_data")] == ["safe_load"]
