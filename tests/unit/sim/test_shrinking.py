"""The shrinker finds the fewest parts that still fail, and a run with them can be repeated."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.running import Case, Result, run_case, shrunk
from sim.shrinking import RunParts, fewest, parse_parts, shrink
from sim.transcript import transcribe


@given(size=st.integers(1, 30), data=st.data())
def test_the_parts_that_are_needed_together_are_found(size: int, data: st.DataObject) -> None:
    parts = list(range(size))
    needed = data.draw(st.sets(st.sampled_from(parts)))
    assert set(fewest(parts, lambda some: needed <= set(some))) == needed


@given(size=st.integers(1, 12), data=st.data())
def test_no_part_of_the_answer_can_be_left_out(size: int, data: st.DataObject) -> None:
    failing = data.draw(st.sets(st.frozensets(st.integers(0, size - 1)), min_size=1))

    def fails(some: Sequence[int]) -> bool:
        return any(group <= set(some) for group in failing)

    found = fewest(list(range(size)), fails)
    assert fails(found)
    assert not any(fails([p for p in found if p != left_out]) for left_out in found)


def test_parts_are_read_as_they_are_written() -> None:
    parts = RunParts(frozenset({0, 12}), frozenset({3}), frozenset())
    assert str(parts) == "f0,f12,p3"
    assert parse_parts(str(parts)) == parts
    assert parse_parts("none") == RunParts(frozenset(), frozenset(), frozenset())
    with pytest.raises(ValueError, match="'x1' is no part"):
        parse_parts("x1")


def test_a_run_is_shrunk_to_the_requests_that_it_needs() -> None:
    whole = run_case(Case("stop-and-go", 0)).parts
    assert whole is not None

    def began_again(parts: RunParts) -> bool:
        return run_case(Case("stop-and-go", 0, parts=parts)).sometimes.get("committed a checkpoint", 0) > 0

    assert shrink(whole, began_again) == RunParts(frozenset(), frozenset(), frozenset())


def test_a_run_that_kept_its_promises_is_not_shrunk() -> None:
    result = Result(case=Case("checkpoint", 0))
    assert shrunk(result) is result


def test_the_command_of_a_shrunk_run_names_its_parts() -> None:
    case = Case("chaos", 7, parts=RunParts(frozenset({2}), frozenset(), frozenset({0})))
    assert case.command() == "python -m sim --scenario chaos --seed 7 --only f2,m0"


def test_a_part_that_is_left_out_changes_nothing_that_is_drawn_for_the_others() -> None:
    whole = run_case(Case("chaos", 5))
    assert whole.parts is not None
    same = run_case(Case("chaos", 5, parts=whole.parts))
    assert same.trace == whole.trace
    calm = run_case(Case("chaos", 5, parts=parse_parts("none")))
    assert not calm.injected
    assert not calm.rule


def test_a_transcript_has_no_ticks_and_no_tokens() -> None:
    result = run_case(Case("checkpoint", 0), keep_trace=True, describe=transcribe)
    assert result.lines
    text = "\n".join(result.lines)
    assert "calls MetaSwap(name=latest, data=Latest(" in text
    assert "order: InjectBarrier" in text or "order: Inject" in text
    assert "Due(" not in text
    assert "token=" not in text
