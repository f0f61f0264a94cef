"""Random edits of a job: what a checkpoint holds is taken over exactly, or refused by name."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.base.values import replace
from penstock.contract.control_messages import StageSplits
from penstock.contract.ids import Attempt, BlobName, Epoch, JobUid, SplitId, Term
from penstock.contract.keygroups import groups_of, intersect
from penstock.contract.manifest import (
    BlobRef,
    RootManifest,
    SplitState,
    StateFile,
    TaskManifest,
)
from penstock.contract.plan import Assignment, PhysicalPlan
from penstock.contract.streamjob import Job, Spec, StreamJob
from penstock.graph import JobFile
from penstock.graph.load import compile_draft
from penstock.protocol.leader.attempt_assignment import deal_anew, stages_to_list, table_of
from penstock.protocol.state_entries import all_splits_of, entries_of, groups_of_files, splits_of, watermark_of
from penstock.protocol.state_matching import incompatible, match, without

COLUMNS = {"k": "int64", "word": "string", "x": "int64"}
NAMES = ("one", "two", "three", "four")
COMPUTES = {"count": ps.count(), "sum": ps.sum("x"), "least": ps.min("x")}


@dataclass(frozen=True)
class Branch:
    """From a source through filters, a running aggregate and more filters to a sink."""

    source: str
    own: bool  # a generator, not a folder
    before: tuple[str, ...]
    name: str
    keys: tuple[str, ...]
    compute: str
    after: tuple[str, ...]
    tasks: int | None


Jobs = tuple[Branch, ...]


def keep_all(batch: object) -> object:
    return batch


def plan_of(branches: Jobs) -> PhysicalPlan:
    job, sources = ps.Job(), {}
    for number, b in enumerate(branches):
        if b.source not in sources:
            made = ps.generator(rows=9) if b.own else ps.parquet("in")
            columns = None if b.own else COLUMNS
            sources[b.source] = job.source(f"from-{b.source}", made, columns=columns)
        stream = sources[b.source].flat_map("to-" + str(number), keep_all, columns=COLUMNS)
        for name in b.before:
            stream = stream.filter(f"{name}-before-{number}", keep_all)
        if b.tasks is not None:
            stream = stream.parallel(b.tasks)
        counted = stream.key_by(*b.keys).aggregate(b.name, value=COMPUTES[b.compute])
        for name in b.after:
            counted = counted.filter(f"{name}-after-{number}", keep_all)
        counted.sink(f"out-{number}", ps.discard())
    file = JobFile(StreamJob("random", Spec(job=Job(entrypoint="a:b"), max_key_groups=16)), {})
    return compile_draft(file, job.draft, None).plan


FILTERS = st.lists(st.sampled_from(["f", "g"]), max_size=2, unique=True).map(tuple)
BRANCH = st.builds(
    Branch,
    source=st.sampled_from(["left", "right"]),
    own=st.booleans(),
    before=FILTERS,
    name=st.sampled_from(NAMES),
    keys=st.sampled_from([("k",), ("word",), ("k", "word")]),
    compute=st.sampled_from(sorted(COMPUTES)),
    after=FILTERS,
    tasks=st.sampled_from([None, None, 1, 3]),
)


def sound(branches: list[Branch]) -> Jobs:
    """Give each step its own name, and all sources one kind."""
    named = {b.name: b for b in branches}
    kinds = {b.source: b.own for b in branches}
    return tuple(replace(b, own=kinds[b.source]) for b in named.values())


JOBS = st.lists(BRANCH, min_size=1, max_size=4).map(sound)


@st.composite
def edited(draw: st.DrawFn) -> tuple[Jobs, Jobs]:
    """Draw a job and the same one after some edits, in any order of its branches."""
    before = draw(JOBS)
    after: list[Branch] = []
    for branch in draw(st.permutations(before)):
        match draw(st.sampled_from(["stays", "stays", "free", "tasks", "other", "gone"])):
            case "stays":
                after.append(branch)
            case "free":
                after.append(replace(branch, before=draw(FILTERS), after=draw(FILTERS)))
            case "tasks":
                after.append(replace(branch, tasks=draw(st.sampled_from([None, 2, 5]))))
            case "other":
                after.append(replace(draw(BRANCH), name=branch.name))
    after += draw(st.lists(BRANCH, max_size=2))
    return before, sound(after or [draw(BRANCH)])


def shapes(branches: Jobs) -> dict[str, object]:
    """Say what each step keeps, told from the job and not from its plan."""
    kept: dict[str, object] = {f"from-{b.source}": b.own for b in branches}
    kept.update({b.name: (b.keys, b.compute) for b in branches})
    return kept


def stored(plan: PhysicalPlan, table: Assignment) -> RootManifest:
    """Make a checkpoint in which every task has files of its states and every split its offset."""
    tasks = []
    for number, task in enumerate(table.tasks()):
        stage = plan.stages[task.stage]
        keyed = [s.step for s in plan.states if s.keys and s.step in stage.steps]
        files = tuple(
            StateFile(
                BlobRef(BlobName(f"{step}-{task}-{order}"), "", 1),
                step,
                table.share_of(task),
                order,
                Epoch(3),
                1,
            )
            for step in keyed
            for order in (0, 1)
        )
        splits = tuple(SplitState(s, f"{stage.source}", 7) for s in table.splits_of(task))
        tasks.append(TaskManifest(task, files, splits, watermark_us=100 + number))
    return RootManifest(
        JobUid("job"),
        Epoch(3),
        Term(1),
        Attempt(1),
        "checkpoint",
        plan.max_key_groups,
        plan.fingerprint,
        table,
        tuple(tasks),
        plan.states,
        plan.steps,
    )


def listed(root: RootManifest | None, plan: PhysicalPlan) -> tuple[StageSplits, ...]:
    """List two splits of each source that is to be listed; their names are the same for all."""
    first = tuple(SplitState(SplitId(f"split-{i}"), "new", 0) for i in range(2))
    return tuple(StageSplits(stage, first) for stage in stages_to_list(root, plan))


def begun(branches: Jobs, workers: int) -> RootManifest:
    plan = plan_of(branches)
    return stored(plan, deal_anew(None, plan, workers, listed(None, plan)))


def files_by_group(files: tuple[StateFile, ...]) -> list[tuple[str, int, str]]:
    return [(f.state, g, f.blob.name) for f in files for g in groups_of(f.groups)]


def taken(root: RootManifest, plan: PhysicalPlan, table: Assignment) -> list[tuple[str, int, str]]:
    """List what all tasks of a table load, each file by the groups that its reader sees."""
    found = []
    for task in table.tasks():
        steps = plan.stages[task.stage].steps
        mine = entries_of(root, steps, table.share_of(task))
        assert all(f.state in steps for f in mine)
        orders = [f.order for f in mine]
        assert orders == sorted(orders)
        found += files_by_group(mine)
    return found


def check_splits(root: RootManifest, plan: PhysicalPlan, table: Assignment) -> None:
    """Every split of a source that stays goes on at its offset; others were listed."""
    new = stages_to_list(root, plan)
    for stage in plan.stages:
        if stage.source is None:
            continue
        dealt = [n for names in table.stages[stage.index].splits for n in names]
        assert len(dealt) == len(set(dealt)) == 2
        if stage.index not in new:
            states = splits_of(root, plan, stage.source, tuple(dealt))
            assert {(s.spec, s.offset) for s in states} == {(stage.source, 7)}
            assert set(all_splits_of(root, plan, stage.source)) == set(dealt)


@given(edited(), st.integers(1, 3), st.integers(1, 3))
def test_state_is_exactly_what_was_stored_or_refused_by_name(
    jobs: tuple[Jobs, Jobs], before_workers: int, after_workers: int
) -> None:
    before, after = jobs
    root, plan = begun(before, before_workers), plan_of(after)
    had, has = shapes(before), shapes(after)
    wrong = {name for name in had if name not in has or had[name] != has[name]}
    why = incompatible(root, plan)
    assert (why is not None) == bool(wrong)
    if why is not None:
        assert all(f"step {name!r}" in why for name in wrong)
        assert not any(f"step {name!r}" in why for name in {*had, *has} - wrong)
        root = without(root, plan, sorted(wrong))
        assert incompatible(root, plan) is None
    assert set(match(root, plan).kept) == {n for n in had if n not in wrong}
    table = table_of(root, plan) or deal_anew(root, plan, after_workers, listed(root, plan))
    kept = [
        entry
        for task in begun(before, before_workers).tasks
        for entry in files_by_group(task.files)
        if entry[0] not in wrong
    ]
    assert sorted(taken(root, plan, table)) == sorted(kept)
    check_splits(root, plan, table)


@given(JOBS, st.integers(1, 3))
def test_a_job_that_has_not_changed_keeps_its_table_and_its_times(branches: Jobs, workers: int) -> None:
    root, plan = begun(branches, workers), plan_of(branches)
    assert incompatible(root, plan) is None
    table = root.assignment
    assert table_of(root, plan) == table
    for manifest in root.tasks:
        assert watermark_of(root, plan, manifest.task, table.share_of(manifest.task)) == manifest.watermark_us


@given(edited())
def test_a_watermark_is_never_ahead_of_what_a_step_has_seen(jobs: tuple[Jobs, Jobs]) -> None:
    before, after = jobs
    root, plan = begun(before, 2), plan_of(after)
    root = without(root, plan, sorted({*match(root, plan).changed, *match(root, plan).gone}))
    homes: dict[str, list[int]] = {}
    for manifest in root.tasks:
        for name in root.steps[manifest.task.stage]:
            homes.setdefault(name, []).append(manifest.watermark_us or 0)
    table = table_of(root, plan) or deal_anew(root, plan, 2, listed(root, plan))
    kept = match(root, plan).kept
    for task in table.tasks():
        mark, own = watermark_of(root, plan, task, table.share_of(task)), [m for m in root.tasks if m.task == task]
        steps = [n for n in plan.stages[task.stage].steps if n in kept]
        share, stage = table.share_of(task), plan.stages[task.stage].steps
        files = {m.task: [f for f in m.files if f.step in stage] for m in root.tasks}
        givers = [m for m in root.tasks if intersect(share, groups_of_files(files[m.task]))]
        assert mark is None or all(m.watermark_us is not None and mark <= m.watermark_us for m in givers)
        if mark is not None and steps and mark not in {m.watermark_us for m in (*own, *givers)}:
            assert all(mark <= min(homes[name]) for name in steps)
