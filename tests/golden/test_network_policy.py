"""The whole NetworkPolicy of a job, so that a reviewer sees each change of what workers may reach."""

from pathlib import Path

import yaml

from penstock_operator.resources.permissions import network_policy
from penstock_operator.resources.target import Owner

GOLDEN = Path(__file__).parent / "kubernetes" / "network-policy.yaml"


def test_the_policy_is_the_one_that_was_reviewed() -> None:
    made = network_policy(Owner("wordcount", "team", "1234-uid"))
    assert yaml.safe_load(GOLDEN.read_text()) == made
