"""What publishes to Kafka, PostgreSQL, Delta Lake and Iceberg, over virtual servers, in orders that a seed chooses."""

from collections import Counter

import pytest

from sim.mutants.rules import Mutant
from sim.publishers.publisher_mutants import MUTANTS, RULES
from sim.publishers.publisher_runs import PublisherCase, run_all
from sim.publishers.publisher_scenarios import SCENARIOS
from tests.support.long_tests import count

SEEDS = count(3, 1000)
SEEDS_OF_ICEBERG = count(1, 250)  # a run takes a quarter of a second: its client is in Python
BROKEN_ONCE = (
    ("less-topic", 22),  # a publisher that left rows out fenced its successor, and wrote an older epoch again
    ("plain-topic", 142),  # a late request committed a part of the next transaction of Kafka
    ("rest-topic", 47),  # a marker that had been lost at rest began at 0, with the same consequence
    ("lost-table", 18),  # a marker that had been lost began at 0, so a publisher that came late wrote its epoch again
    ("others-delta", 15),  # VACUUM removed an old copy of a file while a later try added it to the table
    ("others-iceberg", 24),  # a lost answer, while the client merged manifests, was taken for a fault of Penstock
)
SOMETIMES = (
    *(
        "killed",
        "stood still",
        "answer lost",
        "refused when written",
        "state older than output",
        "markers lost at rest",
        "other writers",
        "days passed",
        "table made to fit",
    ),
    *("published: Fail", "published: Publish", "published: Skip", "published: Drop"),
)


def test_no_order_breaks_a_promise() -> None:
    cases = [
        PublisherCase(name, seed)
        for name, scenario in SCENARIOS.items()
        for seed in range(SEEDS_OF_ICEBERG if scenario.target == "iceberg" else SEEDS)
    ]
    results = run_all([*cases, *(PublisherCase(name, seed) for name, seed in BROKEN_ONCE)])
    assert [str(result) for result in results if result.rule] == []
    met = sum((result.happened for result in results), Counter[str]())
    assert [state for state in SOMETIMES if not met[state]] == []


def test_a_seed_has_one_trace() -> None:
    names = ("others-iceberg", "less-iceberg", "others-delta", "given-up-topic", "less-table")
    cases = [PublisherCase(name, 0) for name in names]
    traces = [{str(result.case): result.trace for result in run_all(order)} for order in (cases, cases[::-1])]
    assert traces[0] == traces[1]
    assert len(set(traces[0].values())) == len(cases)


def test_each_rule_has_a_fault() -> None:
    assert {mutant.rule for mutant in MUTANTS.values()} == set(RULES)


@pytest.mark.parametrize("mutant", list(MUTANTS.values())[:: count(12, 1)], ids=lambda mutant: mutant.name)
def test_an_order_notices_the_fault(mutant: Mutant) -> None:
    (result,) = run_all([PublisherCase(mutant.scenario, mutant.seed, mutant=mutant.name)], mutant.name)
    assert result.rule, mutant.name
