"""``spec.partition``, ``spec.rebalanceNonce``: the leader learns what is wanted, and a condition says what came."""

import pytest

from penstock.base.values import replace
from penstock.contract.balance import Balance, StepBalance
from penstock.contract.codec import ABSENT
from penstock.contract.ids import Version
from penstock.contract.schemes import RefusedScheme, SchemeChoice
from penstock.contract.streamjob_status import Condition, ConditionType
from penstock_operator.api.classes import digest_of
from penstock_operator.api.observed import Observed
from penstock_operator.reconcile.actions import WriteDesired
from penstock_operator.reconcile.decide import decide
from tests.unit.operator.observing import running, spec_of

HOT = SchemeChoice("work", "hot")
ASKED = spec_of(partition=[{"step": "work", "use": "hot"}])


def with_latest(seen: Observed, **changes: object) -> Observed:
    assert seen.latest is not None
    assert seen.latest.value is not None
    value = replace(seen.latest.value, **changes)  # type: ignore[arg-type]
    return replace(seen, latest=replace(seen.latest, value=value))


def judged(seen: Observed, kind: ConditionType = ConditionType.PARTITIONED) -> Condition | None:
    status = decide(seen).status
    assert status is not None
    return status.condition(kind)


def test_a_choice_restarts_nothing_and_is_written_for_the_leader() -> None:
    assert digest_of(ASKED) == digest_of(spec_of())
    writes = [a for a in decide(running(spec_of(), wanted=ASKED)).actions if isinstance(a, WriteDesired)]
    assert [w.value.partition for w in writes] == [(HOT,)]
    back = running(ASKED, wanted=spec_of())
    assert back.desired is not None
    back = replace(back, desired=replace(back.desired, value=replace(back.desired.value, partition=(HOT,))))
    writes = [a for a in decide(back).actions if isinstance(a, WriteDesired)]
    assert [w.value.partition for w in writes] == [ABSENT]


@pytest.mark.parametrize(
    ("changes", "status", "reason", "message"),
    [
        ({}, "Unknown", "SchemesWanted", "work by hot"),
        ({"schemes": (HOT,), "version": Version(2)}, "Unknown", "SchemesWanted", "work by hot"),
        ({"schemes": (HOT,)}, "True", "SchemesHold", "work by hot"),
        ({"refused": (RefusedScheme("work", "hot", "no hot"),)}, "False", "SchemeRefused", "no hot"),
        ({"refused": (RefusedScheme("work", "old", "no old"),)}, "Unknown", "SchemesWanted", "work by hot"),
    ],
)
def test_a_condition_says_what_became_of_it(changes: dict[str, object], status: str, reason: str, message: str) -> None:
    found = judged(with_latest(running(ASKED), **changes))
    assert found is not None
    assert (found.status, found.reason, found.message) == (status, reason, message)


def test_a_job_that_asks_for_nothing_shows_what_holds_and_one_without_schemes_nothing() -> None:
    assert judged(running(spec_of())) is None
    found = judged(with_latest(running(spec_of()), schemes=(HOT,)))
    assert found is not None
    assert (found.status, found.message) == ("True", "work by hot")


BALANCE = spec_of(rebalanceNonce=4)
MOVED = Balance(4, (StepBalance("count", 2, 10, 8, 5),))


def test_a_request_to_balance_restarts_nothing_and_is_written_for_the_leader() -> None:
    assert digest_of(BALANCE) == digest_of(spec_of())
    writes = [a for a in decide(running(spec_of(), wanted=BALANCE)).actions if isinstance(a, WriteDesired)]
    assert [w.value.rebalance for w in writes] == [4]
    assert judged(with_latest(running(spec_of()), balance=MOVED), ConditionType.BALANCED) is None


@pytest.mark.parametrize(
    ("changes", "status", "reason"),
    [
        ({}, "Unknown", "BalanceWanted"),
        ({"balance": Balance(3)}, "Unknown", "BalanceWanted"),
        ({"balance": MOVED, "version": Version(2)}, "Unknown", "BalanceWanted"),
        ({"balance": MOVED}, "True", "KeyGroupsMoved"),
        ({"balance": Balance(4)}, "True", "NothingMoved"),
    ],
)
def test_a_condition_says_what_came_of_a_request_to_balance(
    changes: dict[str, object], status: str, reason: str
) -> None:
    found = judged(with_latest(running(BALANCE), **changes), ConditionType.BALANCED)
    assert found is not None
    assert (found.status, found.reason) == (status, reason)
    if status == "True":
        assert found.message == str(changes["balance"])
