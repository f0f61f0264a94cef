"""The scheme of a step is the one that is asked for, if the step has it."""

import pytest

from penstock.base.errors import ConfigError
from penstock.base.values import replace
from penstock.contract.codec import ABSENT, encode
from penstock.contract.ids import Ordinal, StageIndex, TaskId
from penstock.contract.plan import (
    EdgePlan,
    Partitioning,
    PhysicalPlan,
    StagePlan,
    first_assignment,
    next_assignment,
    routes,
)
from penstock.contract.schemes import SchemeChoice, SchemeNames, changed, chosen, read_choice, refused

KNOWN = {"work": SchemeNames(("even", "hot"), "even"), "other": SchemeNames(("one", "two"), "two")}
HOT, EVEN, TWO = SchemeChoice("work", "hot"), SchemeChoice("work", "even"), SchemeChoice("other", "two")
STAGES = (
    StagePlan(StageIndex(0), "read", ("read",), source="read"),
    StagePlan(StageIndex(1), "work", ("work",), schemes=KNOWN["work"]),
)
EDGE = EdgePlan(0, StageIndex(0), StageIndex(1), Partitioning.CUSTOM)
PLAN = PhysicalPlan("job", 8, STAGES, (EDGE,), "")


def test_what_is_asked_for_holds_and_else_what_the_job_says() -> None:
    assert chosen(KNOWN, (), ()) == (EVEN, TWO)
    assert chosen(KNOWN, (HOT,), (EVEN, TWO)) == (HOT, TWO)
    assert chosen(KNOWN, (), (HOT, TWO)) == (EVEN, TWO)
    assert chosen({}, (HOT,), ()) is ABSENT


def test_what_holds_stays_while_a_scheme_that_is_not_there_is_asked_for() -> None:
    cold = SchemeChoice("work", "cold")
    assert chosen(KNOWN, (cold,), (HOT, TWO)) == (HOT, TWO)
    assert chosen(KNOWN, (cold,), (cold, TWO)) == (EVEN, TWO)  # the job had it once


def test_a_refusal_names_what_is_known() -> None:
    asked = (SchemeChoice("work", "cold"), SchemeChoice("wrok", "hot"), HOT)
    assert [each.text for each in refused(KNOWN, asked)] == [
        "work=cold: step 'work' has no scheme 'cold'; its schemes: even, hot",
        "wrok=hot: no step 'wrok' has schemes; steps with schemes: work, other",
    ]
    (only,) = refused({}, (HOT,))
    assert "no step of the job has schemes" in only.text


def test_choices_are_read_and_changed() -> None:
    assert read_choice("work=hot") == HOT
    assert str(HOT) == "work=hot"
    assert changed((HOT, TWO), (EVEN,)) == (EVEN, TWO)
    for text in ("work", "=hot", "work=", "a,b=c", "work=hot=x"):
        with pytest.raises(ConfigError, match="write STEP=SCHEME"):
            read_choice(text)


def test_the_table_keeps_its_schemes_and_the_routes_have_both() -> None:
    first = first_assignment(PLAN, 2, {})
    assert first.scheme_of("work") == "even"
    assert next_assignment(PLAN, first, 3).schemes == first.schemes
    following = replace(next_assignment(PLAN, first, 2), schemes=(HOT,))
    sender = TaskId(StageIndex(0), Ordinal(0), 0)
    assert routes(PLAN, EDGE, sender, first, None).schemes == ("even", "even")
    assert routes(PLAN, EDGE, sender, first, following).schemes == ("even", "hot")


def test_a_job_without_schemes_is_written_as_before() -> None:
    plain = replace(PLAN, stages=(STAGES[0], replace(STAGES[1], schemes=ABSENT)))
    assert b"schemes" not in encode(plain)
    assert b"schemes" not in encode(first_assignment(plain, 2, {}))
