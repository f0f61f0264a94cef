"""The whole NetworkPolicy of a job, so that a reviewer sees each change of what workers may reach."""

from pathlib import Path
from typing import Any

import yaml

from penstock.contract.settings import Egress
from penstock_operator.resources.permissions import network_policy
from penstock_operator.resources.target import Owner

GOLDEN = Path(__file__).parent / "kubernetes" / "network-policy.yaml"


def test_the_policy_is_the_one_that_was_reviewed() -> None:
    made = network_policy(Owner("wordcount", "team", "1234-uid"))
    assert yaml.safe_load(GOLDEN.read_text()) == made


def test_what_a_user_allows_is_added_behind() -> None:
    owner = Owner("wordcount", "team", "1234-uid")
    allowed = (Egress("10.20.0.0/16", 9092), Egress("fd00::/8", 5432))
    spec: Any = network_policy(owner, allowed)["spec"]
    plain: Any = network_policy(owner)["spec"]
    added = spec["egress"][len(plain["egress"]) :]
    assert spec == {**plain, "egress": [*plain["egress"], *added]}
    assert [(rule["to"][0]["ipBlock"]["cidr"], rule["ports"]) for rule in added] == [
        ("10.20.0.0/16", [{"protocol": "TCP", "port": 9092}]),
        ("fd00::/8", [{"protocol": "TCP", "port": 5432}]),
    ]
