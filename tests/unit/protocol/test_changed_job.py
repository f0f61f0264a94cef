"""A job that has changed since its checkpoint: what it takes over, and which steps the refusals name."""

from collections.abc import Callable

import pytest

import penstock as ps
from penstock.base.values import replace
from penstock.contract import control_messages as control
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
    return compile_draft(JobFile(StreamJob("test", Spec(job=Job(entrypoint="a:b"))), {}), job.draft, None).plan


def keep(batch: object) -> object:
    return batch


def counted(job: ps.Job) -> None:
    rows = job.source("rows", ps.parquet("in"), columns=COLUMNS)
    rows.key_by("word").aggregate("count", n=ps.count()).sink("out", ps.parquet("out"))


def filtered(job: ps.Job) -> None:
    rows = job.source("rows", ps.parquet("in"), columns=COLUMNS).filter("some", keep)
    rows.key_by("word").aggregate("count", n=ps.count()).sink("out", ps.parquet("out"))


def stopped(build: Build, epoch: int = 2) -> InMemoryControlPlane:
    """Return a control plane whose job has committed and published ``epoch``, and was stopped."""
    plane = InMemoryControlPlane(2)
    plane.plan = plan_of(build)
    plane.until(lambda: plane.latest.epoch >= epoch)
    plane.want(requests=(Request("r1", "stop"),))
    plane.until(lambda: plane.latest.stopped)
    for ordinal in (0, 1):
        plane.kill(ordinal)
    return plane


def again(plane: InMemoryControlPlane, build: Build, **desired: object) -> None:
    """Run the job again as ``build`` makes it now."""
    plane.plan = plan_of(build)
    plane.want(run="run-2", **desired)
    for ordinal in (0, 1):
        plane.start(ordinal)


def test_a_stateless_step_more_still_fits() -> None:
    plane = stopped(counted)
    newest = plane.latest.epoch
    again(plane, filtered)
    plane.until(lambda: plane.latest.epoch > newest or plane.latest.failure is not None)
    assert plane.latest.failure is None


def begun(plane: InMemoryControlPlane, newest: int) -> str | None:
    """Wait until the job has committed more than ``newest`` or was refused; return why."""
    plane.until(lambda: plane.latest.epoch > newest or plane.latest.failure is not None)
    return plane.latest.failure


def changed(before: Build, after: Build, **desired: object) -> InMemoryControlPlane:
    """Run a job, stop it, and run it again as it is now."""
    plane = stopped(before)
    newest = plane.latest.epoch
    again(plane, after, **desired)
    begun(plane, newest)
    return plane


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
    plane = changed(counted, after)
    assert plane.latest.failure is None
    written = root(plane)
    assert written.steps == plan_of(after).steps
    assert {s.step for s in written.states if s.kind == "aggregate"} == {"count"}


def test_a_changed_stateful_step_is_refused_and_both_schemas_are_shown() -> None:
    plane = changed(counted, by_two_keys)
    assert (
        "step 'count': stored keys [word: string], columns [n: int64]; the job has "
        "[word: string, lang: string], [n: int64]"
    ) in (plane.latest.failure or "")
    assert "fingerprint" not in (plane.latest.failure or "")


def test_state_without_a_step_is_refused_by_its_name() -> None:
    plane = changed(counted, renamed)
    failure = plane.latest.failure or ""
    assert "step 'count': its state (keys [word: string], columns [n: int64]) is stored" in failure
    assert "restore.dropState: [count]" in failure


@pytest.mark.parametrize("names", [("count",), (ANY_STATE,)])
def test_state_is_given_up_for_good_when_it_is_named(names: tuple[str, ...]) -> None:
    plane = changed(counted, renamed, restore=Restore("n1", drop_state=names))
    assert plane.latest.failure is None
    for ordinal in (0, 1):
        plane.kill(ordinal)
    newest = plane.latest.epoch
    plane.want(run="run-3", restore=None)
    for ordinal in (0, 1):
        plane.start(ordinal)
    assert begun(plane, newest) is None


def test_a_crash_before_the_next_checkpoint_asks_for_nothing_again() -> None:
    plane = stopped(counted)
    newest = plane.latest.epoch
    again(plane, renamed, restore=Restore("n1", drop_state=("count",)))
    plane.until(lambda: plane.latest.restored == "n1")
    assert plane.latest.epoch == newest
    assert [s.step for s in root(plane).states] == ["rows", "out"]
    for ordinal in (0, 1):
        plane.kill(ordinal)
    plane.want(run="run-3", restore=None)
    for ordinal in (0, 1):
        plane.start(ordinal)
    assert begun(plane, newest) is None


def test_a_step_that_is_there_begins_empty_when_its_state_is_given_up() -> None:
    plane = changed(counted, by_two_keys, restore=Restore("n1", drop_state=("count",)))
    assert plane.latest.failure is None


def test_a_misspelt_step_is_told_where_something_does_not_fit() -> None:
    plane = changed(counted, renamed, restore=Restore("n1", drop_state=("cuont",)))
    failure = plane.latest.failure or ""
    assert "step 'count': its state" in failure
    assert "unknown stored state of a step 'cuont': did you mean 'count'?" in failure


def test_state_that_is_gone_already_may_be_given_up_again() -> None:
    plane = changed(counted, filtered, restore=Restore("n1", drop_state=("tally",)))
    assert plane.latest.failure is None


def test_only_a_new_source_is_listed_and_the_others_go_on() -> None:
    plane = changed(counted, two_sources)
    plan = plan_of(two_sources)
    new = next(s.index for s in plan.stages if s.source == "more")
    asked = [c.stages for c in sent(plane, control.Enumerate) if isinstance(c, control.Enumerate)]
    assert set(asked) == {(StageIndex(0),), (new,)}
    resets = [c for c in sent(plane, control.Reset) if isinstance(c, control.Reset)]
    assert {s.stage for s in resets[-1].splits} == {new}


def test_a_table_is_dealt_out_anew_when_the_stages_change_and_else_stays() -> None:
    plane = stopped(counted)
    before, newest = root(plane).assignment, plane.latest.epoch
    again(plane, filtered)
    begun(plane, newest)
    assert root(plane).assignment == before
    plane = changed(counted, spread_out)
    after = root(plane).assignment
    assert after.version > before.version
    assert [len(s.tasks) for s in after.stages] == [3, 1, 5]


def test_a_sink_that_is_gone_must_have_published() -> None:
    plane = InMemoryControlPlane(2)
    plane.plan = plan_of(counted)
    plane.until(lambda: plane.latest.epoch == 1)
    plane.engine(1).mute = ["Commit"]
    plane.until(lambda: plane.latest.epoch == 2)
    for ordinal in (0, 1):
        plane.kill(ordinal)
    again(plane, other_sink)
    assert "sinks ['out'] are gone or of another kind" in (begun(plane, 2) or "")
    plane.want(run="run-3", restore=Restore("n1", drop_unpublished=True))
    plane.until(lambda: plane.latest.epoch > 2)
    assert plane.latest.lost_output == (2,)


def test_half_of_the_workers_with_another_plan_wait_for_the_others() -> None:
    plane = InMemoryControlPlane(2)
    plane.plan = plan_of(counted)
    plane.until(lambda: plane.latest.epoch >= 2)
    plane.kill(0)
    plane.plan = plan_of(filtered)
    attempt = plane.latest.attempt
    plane.start(0)
    plane.run(30.0)
    assert plane.latest.attempt == attempt, "two plans never share an attempt"
    assert "have compiled another job than the leader" in (plane.latest.stalled or "")
    plane.kill(1)
    plane.start(1)
    plane.until(lambda: plane.latest.attempt > attempt)
    assert plane.latest.stalled is None
    assert begun(plane, plane.latest.epoch) is None


def test_a_manifest_of_an_earlier_release_fits_the_job_as_it_was() -> None:
    plane = stopped(counted)
    assert plane.latest.root is not None
    plan, now = plan_of(counted), root(plane)
    old = replace(now, fingerprint=plan.state_fingerprint, states=(), steps=(), format=1)
    plane.blobs[plane.latest.root.name] = old
    assert incompatible(old, plan) is None
    assert "taken by an earlier release" in (incompatible(old, plan_of(filtered)) or "")
    newest = plane.latest.epoch
    again(plane, counted)
    assert begun(plane, newest) is None
    assert root(plane).format == 2


def test_a_savepoint_of_the_job_as_it_was_is_restored_by_name() -> None:
    plane = stopped(counted)
    saved = replace(root(plane), job_uid=JobUid("other"))
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


@ps.record
class Word:
    word: str


@ps.state
class Counted:
    n: int = 0


def count(r: Word, s: Counted, out: ps.Out[Word]) -> None:
    s.n += 1


def of_dicts(job: ps.Job) -> None:
    rows = job.source("rows", ps.parquet("in"), columns=COLUMNS).key_by("word")
    rows.process("count", keep, state={"n": "int64"}, columns=COLUMNS).sink("out", ps.parquet("out"))


def of_types(job: ps.Job) -> None:
    rows = job.source("rows", ps.parquet("in"), columns=COLUMNS).key_by("word")
    rows.process("count", count).sink("out", ps.parquet("out"))


def test_a_state_with_types_is_another_one_than_that_of_dicts() -> None:
    dicts, types = plan_of(of_dicts), plan_of(of_types)
    saved = replace(root(stopped(of_dicts)), states=dicts.states, steps=dicts.steps)
    assert match(saved, dicts).changed == ()
    assert match(saved, types).changed == ("count",)


def kept(columns: dict[str, str]) -> Build:
    def build(job: ps.Job) -> None:
        rows = job.source("rows", ps.parquet("in"), columns={**COLUMNS, **columns})
        rows.key_by("word").top("best", 3, by="x").sink("out", ps.discard())

    return build


@pytest.mark.parametrize("columns", [{"lang": "int64"}, {"x": "double"}, {"y": "int64"}])
def test_rows_that_are_kept_have_the_columns_that_they_had(columns: dict[str, str]) -> None:
    """They are bytes: with other columns they would be read as values that nobody wrote."""
    before = plan_of(kept({}))
    stored = replace(root(stopped(kept({}))), states=before.states, steps=before.steps)
    assert match(stored, before).changed == ()
    assert match(stored, plan_of(kept(columns))).changed == ("best",)
