"""``ps.migrate`` finds both classes by the hints of its function, and refuses what cannot be told apart."""

from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.contract.codec import ABSENT
from penstock.contract.plan import StepState
from penstock.contract.streamjob import Job, Spec, StreamJob
from penstock.graph import JobFile
from penstock.graph.load import compile_draft


@ps.record
class Reading:
    mote: int
    value: int


@ps.state
class Old:
    total: ps.int32 = 0


@ps.state
class New:
    total: int = 0
    label: str = ""


@ps.state
class Same:
    label: str = "other"
    total: int = 7


def look(r: Reading, s: New, out: ps.Out[Reading]) -> None:
    out.emit(r)


def convert(old: Old) -> New:
    return New(total=old.total, label=f"{old.total}")


def built(function: Callable[..., Any] = convert) -> tuple[ps.Job, ps.Stream]:
    job = ps.Job()
    rows = job.source("rows", ps.parquet("in"), columns={"mote": "int64", "value": "int64"})
    stream = rows.key_by("mote").process("look", look)
    ps.migrate(stream, function)
    return job, stream


def state_of(job: ps.Job) -> StepState:
    plan = compile_draft(JobFile(StreamJob("test", Spec(job=Job(entrypoint="a:b"))), {}), job.draft, None).plan
    return next(state for state in plan.states if state.step == "look")


def test_both_classes_are_in_the_plan() -> None:
    job, stream = built()
    stream.sink("out", ps.discard())
    found = state_of(job)
    assert [(c.name, c.type) for c in found.columns] == [("total", "int64"), ("label", "string")]
    assert found.migrates is not ABSENT
    assert [(c.name, c.type) for c in found.migrates] == [("total", "int32")]


def test_a_state_without_a_function_has_no_earlier_class() -> None:
    job = ps.Job()
    rows = job.source("rows", ps.parquet("in"), columns={"mote": "int64", "value": "int64"})
    rows.key_by("mote").process("look", look).sink("out", ps.discard())
    assert state_of(job).migrates is ABSENT


def from_record(old: Reading) -> New:
    raise AssertionError


def to_another(old: Old) -> Old:
    raise AssertionError


def to_nothing(old: Old) -> None:
    raise AssertionError


def from_same(old: Same) -> New:
    raise AssertionError


def of_two(old: Old, other: int) -> New:
    raise AssertionError


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (from_record, "the hint of 'old' is Reading, which is no @ps.state; the function must be f(old: Old) -> S"),
        (to_another, "it returns Old, and the state of the step is New"),
        (to_nothing, "it returns missing, and the state of the step is New"),
        (from_same, "Same and New have the same fields, so nothing tells stored states of one from those of the other"),
        (of_two, "it has the parameters (old, other)"),
        (3, "3 is not a function"),
    ],
)
def test_a_function_that_does_not_fit_is_refused_with_its_place(function: Any, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        built(function)
    assert "test_migrations.py:" in str(refused.value)
    assert "step 'look': migrate: " in str(refused.value)
    assert said in str(refused.value)


def pay(r: Reading, s: New, out: ps.Out[Reading]) -> None:
    out.emit(r)


def test_a_step_with_two_inputs_migrates_its_one_state() -> None:
    job = ps.Job()
    columns = {"mote": "int64", "value": "int64"}
    one, two = (job.source(name, ps.parquet("in"), columns=columns).key_by("mote") for name in ("one", "two"))
    stream = ps.connect(one, two).process("look", left=look, right=pay)
    ps.migrate(stream, convert)
    stream.sink("out", ps.discard())
    found = state_of(job)
    assert found.migrates is not ABSENT
    assert [(c.name, c.type) for c in found.migrates] == [("total", "int32")]


def test_one_function_for_each_step_with_a_state_of_types() -> None:
    job, stream = built()
    with pytest.raises(ConfigError, match="the step has a function already"):
        ps.migrate(stream, convert)
    plain = job.source("more", ps.parquet("in"), columns={"mote": "int64", "value": "int64"})
    with pytest.raises(ConfigError, match=r"only a @ps\.state is migrated"):
        ps.migrate(plain, convert)
    with pytest.raises(ConfigError, match="several steps are united here"):
        ps.migrate(stream.union(plain), convert)
