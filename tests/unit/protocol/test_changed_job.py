"""A job that has changed since its checkpoint: what it takes over, and what is refused by name."""

from collections.abc import Callable

import pytest

import penstock as ps
from penstock.base.values import replace
from penstock.contract import control
from penstock.contract.ids import JobUid, StageIndex
from penstock.contract.latest import ANY_STATE, Request, Restore
from penstock.contract.plan import PhysicalPlan
from penstock.contract.streamjob import Job, Spec, StreamJob
from penstock.graph import JobFile
from penstock.graph.load import compile_draft
from penstock.protocol.state_matching import incompatible, match
from tests.support.in_memory_control_plane import InMemoryControlPlane
from tests.support.running_jobs import root, sent

COLUMNS = {"word": "string", "lang": "string", "x": "int64"}
Build = Callable[[ps.Job], None]


def plan_of(build: Build) -> PhysicalPlan:
    """Compile what ``build`` adds to an empty job."""
    job = ps.Job()
    build(job)
    return compile_draft(
        JobFile(StreamJob("test", Spec(job=Job(entrypoint="a:b"))), {}), job.draft, None
    ).plan


def keep(batch: object) -> object:
    return batch


def counted(job: ps.Job) -> None:
    rows = job.source("rows", ps.parquet("in"), columns=COLUMNS)
    rows.key_by("word").aggregate("count", n=ps.count()).sink("out", ps.parquet("out"))


def filtered(job: ps.Job) -> None:
    rows = job.source("rows", ps.parquet("in"), columns=COLUMNS).filter("some", keep)
    rows.key_by("word").aggregate("count", n=ps.count()).sink("out", ps.parquet("out"))


def stopped(build: Build, epoch: int = 2) -> InMemoryControlPlane:
    """Return a town whose job has committed and published ``epoch``, and was stopped."""
    town = InMemoryControlPlane(2)
    town.plan = plan_of(build)
    town.until(lambda: town.latest.epoch >= epoch)
    town.want(requests=(Request("r1", "stop"),))
    town.until(lambda: town.latest.stopped)
    for ordinal in (0, 1):
        town.kill(ordinal)
    return town


def again(town: InMemoryControlPlane, build: Build, **desired: object) -> None:
    """Run the job again as ``build`` makes it now."""
    town.plan = plan_of(build)
    town.want(run="run-2", **desired)
    for ordinal in (0, 1):
        town.start(ordinal)


def test_a_stateless_step_more_still_fits() -> None:
    town = stopped(counted)
    newest = town.latest.epoch
    again(town, filtered)
    town.until(lambda: town.latest.epoch > newest or town.latest.failure is not None)
    assert town.latest.failure is None


def begun(town: InMemoryControlPlane, newest: int) -> str | None:
    """Wait until the job has committed more than ``newest`` or was refused; return why."""
    town.until(lambda: town.latest.epoch > newest or town.latest.failure is not None)
    return town.latest.failure


def changed(before: Build, after: Build, **desired: object) -> InMemoryControlPlane:
    """Run a job, stop it, and run it again as it is now."""
    town = stopped(before)
    newest = town.latest.epoch
    again(town, after, **desired)
    begun(town, newest)
    return town


def by_two_keys(job: ps.Job) -> None:
    rows = job.source("rows", ps.parquet("in"), columns=COLUMNS)
    counts = rows.key_by("word", "lang").aggregate("count", n=ps.count())
    counts.sink("out", ps.parquet("out"))


def renamed(job: ps.Job) -> None:
    rows = job.source("rows", ps.parquet("in"), columns=COLUMNS)
    rows.key_by("word").aggregate("tally", n=ps.count()).sink("out", ps.parquet("out"))


def two_sources(job: ps.Job) -> None:
    rows = job.source("rows", ps.parquet("in"), columns=COLUMNS)
    more = job.source("more", ps.parquet("in2"), columns=COLUMNS)
    counts = more.union(rows).key_by("word").aggregate("count", n=ps.count())
    counts.sink("out", ps.parquet("out"))


def two_sinks(job: ps.Job) -> None:
    rows = job.source("rows", ps.parquet("in"), columns=COLUMNS)
    counts = rows.key_by("word").aggregate("count", n=ps.count())
    counts.sink("out", ps.parquet("out"))
    counts.sink("copy", ps.parquet("copy"))


def other_sink(job: ps.Job) -> None:
    rows = job.source("rows", ps.parquet("in"), columns=COLUMNS)
    rows.key_by("word").aggregate("count", n=ps.count()).sink("out", ps.discard())


def spread_out(job: ps.Job) -> None:
    rows = job.source("rows", ps.parquet("in"), columns=COLUMNS, parallelism=3)
    one = rows.filter("some", keep).round_robin().parallel(1).filter("more", keep)
    counts = one.parallel(5).key_by("word").aggregate("count", n=ps.count())
    counts.sink("out", ps.parquet("out"))


@pytest.mark.parametrize("after", [two_sinks, spread_out, two_sources, other_sink, counted])
def test_what_keeps_no_state_is_free(after: Build) -> None:
    town = changed(counted, after)
    assert town.latest.failure is None
    written = root(town)
    assert written.steps == plan_of(after).steps
    assert {s.step for s in written.states if s.kind == "aggregate"} == {"count"}


def test_a_changed_stateful_step_is_refused_and_both_schemas_are_shown() -> None:
    town = changed(counted, by_two_keys)
    assert (
        "step 'count': stored keys [word: string], columns [n: int64]; the job has "
        "[word: string, lang: string], [n: int64]"
    ) in (town.latest.failure or "")
    assert "fingerprint" not in (town.latest.failure or "")


def test_state_without_a_step_is_refused_by_its_name() -> None:
    town = changed(counted, renamed)
    failure = town.latest.failure or ""
    assert "step 'count': its state (keys [word: string], columns [n: int64]) is stored" in failure
    assert "restore.dropState: [count]" in failure


@pytest.mark.parametrize("names", [("count",), (ANY_STATE,)])
def test_state_is_given_up_for_good_when_it_is_named(names: tuple[str, ...]) -> None:
    town = changed(counted, renamed, restore=Restore("n1", drop_state=names))
    assert town.latest.failure is None
    for ordinal in (0, 1):
        town.kill(ordinal)
    newest = town.latest.epoch
    town.want(run="run-3", restore=None)
    for ordinal in (0, 1):
        town.start(ordinal)
    assert begun(town, newest) is None


def test_a_crash_before_the_next_checkpoint_asks_for_nothing_again() -> None:
    town = stopped(counted)
    newest = town.latest.epoch
    again(town, renamed, restore=Restore("n1", drop_state=("count",)))
    town.until(lambda: town.latest.restored == "n1")
    assert town.latest.epoch == newest
    assert [s.step for s in root(town).states] == ["rows", "out"]
    for ordinal in (0, 1):
        town.kill(ordinal)
    town.want(run="run-3", restore=None)
    for ordinal in (0, 1):
        town.start(ordinal)
    assert begun(town, newest) is None


def test_a_step_that_is_there_begins_empty_when_its_state_is_given_up() -> None:
    town = changed(counted, by_two_keys, restore=Restore("n1", drop_state=("count",)))
    assert town.latest.failure is None


def test_a_misspelt_step_is_told_where_something_does_not_fit() -> None:
    town = changed(counted, renamed, restore=Restore("n1", drop_state=("cuont",)))
    failure = town.latest.failure or ""
    assert "step 'count': its state" in failure
    assert "unknown stored state of a step 'cuont': did you mean 'count'?" in failure


def test_state_that_is_gone_already_may_be_given_up_again() -> None:
    town = changed(counted, filtered, restore=Restore("n1", drop_state=("tally",)))
    assert town.latest.failure is None


def test_only_a_new_source_is_listed_and_the_others_go_on() -> None:
    town = changed(counted, two_sources)
    plan = plan_of(two_sources)
    new = next(s.index for s in plan.stages if s.source == "more")
    asked = [c.stages for c in sent(town, control.Enumerate) if isinstance(c, control.Enumerate)]
    assert set(asked) == {(StageIndex(0),), (new,)}
    resets = [c for c in sent(town, control.Reset) if isinstance(c, control.Reset)]
    assert {s.stage for s in resets[-1].splits} == {new}


def test_a_table_is_dealt_out_anew_when_the_stages_change_and_else_stays() -> None:
    town = stopped(counted)
    before, newest = root(town).assignment, town.latest.epoch
    again(town, filtered)
    begun(town, newest)
    assert root(town).assignment == before
    town = changed(counted, spread_out)
    after = root(town).assignment
    assert after.version > before.version
    assert [len(s.tasks) for s in after.stages] == [3, 1, 5]


def test_a_sink_that_is_gone_must_have_published() -> None:
    town = InMemoryControlPlane(2)
    town.plan = plan_of(counted)
    town.until(lambda: town.latest.epoch == 1)
    town.engine(1).mute = ["Commit"]
    town.until(lambda: town.latest.epoch == 2)
    for ordinal in (0, 1):
        town.kill(ordinal)
    again(town, other_sink)
    assert "sinks ['out'] are gone or of another kind" in (begun(town, 2) or "")
    town.want(run="run-3", restore=Restore("n1", drop_unpublished=True))
    town.until(lambda: town.latest.epoch > 2)
    assert town.latest.lost_output == (2,)


def test_half_of_the_workers_with_another_plan_wait_for_the_others() -> None:
    town = InMemoryControlPlane(2)
    town.plan = plan_of(counted)
    town.until(lambda: town.latest.epoch >= 2)
    town.kill(0)
    town.plan = plan_of(filtered)
    attempt = town.latest.attempt
    town.start(0)
    town.run(30.0)
    assert town.latest.attempt == attempt, "two plans never share an attempt"
    assert "have compiled another job than the leader" in (town.latest.stalled or "")
    town.kill(1)
    town.start(1)
    town.until(lambda: town.latest.attempt > attempt)
    assert town.latest.stalled is None
    assert begun(town, town.latest.epoch) is None


def test_a_manifest_of_an_earlier_release_fits_the_job_as_it_was() -> None:
    town = stopped(counted)
    assert town.latest.root is not None
    plan, now = plan_of(counted), root(town)
    old = replace(now, fingerprint=plan.state_fingerprint, states=(), steps=(), format=1)
    town.blobs[town.latest.root.name] = old
    assert incompatible(old, plan) is None
    assert "taken by an earlier release" in (incompatible(old, plan_of(filtered)) or "")
    newest = town.latest.epoch
    again(town, counted)
    assert begun(town, newest) is None
    assert root(town).format == 2


def test_a_savepoint_of_the_job_as_it_was_is_restored_by_name() -> None:
    town = stopped(counted)
    saved = replace(root(town), job_uid=JobUid("other"))
    plan = plan_of(two_sources)
    assert incompatible(saved, plan) is None
    found = match(saved, plan)
    assert (found.kept, found.new, found.gone) == (("rows", "count"), ("more",), ())


def test_a_renamed_column_of_an_aggregate_is_the_same_state() -> None:
    def total(job: ps.Job) -> None:
        rows = job.source("rows", ps.parquet("in"), columns=COLUMNS)
        rows.key_by("word").aggregate("count", total=ps.count()).sink("out", ps.parquet("out"))

    def summed(job: ps.Job) -> None:
        rows = job.source("rows", ps.parquet("in"), columns=COLUMNS)
        rows.key_by("word").aggregate("count", n=ps.sum("x")).sink("out", ps.parquet("out"))

    assert changed(counted, total).latest.failure is None
    failure = changed(counted, summed).latest.failure or ""
    assert (
        "step 'count': stored keys [word: string], columns [n: int64 = count]; the job has "
        "[word: string], [n: int64 = sum(x: int64)]"
    ) in failure
