"""Which entries of a checkpoint a task reads, and how: pure narrowing of manifests.

What is stored is found by the names of the stage's steps, whatever stage they were in when it was
cut. A state file may hold groups that a reader does not own; it must see only its own range, or a
key deleted elsewhere would come back.
"""

from penstock.base.errors import StateError
from penstock.base.values import replace
from penstock.contract.ids import SplitId, TaskId
from penstock.contract.keygroups import Share, intersect
from penstock.contract.manifest import RootManifest, SplitState, StateFile, TaskManifest
from penstock.contract.plan import SINK, PhysicalPlan


def entries_of(root: RootManifest, steps: tuple[str, ...], share: Share) -> tuple[StateFile, ...]:
    """Return the entries of steps narrowed to ``share``, in an order that may be loaded in.

    Entries of one task keep their order; those of different tasks have no group of a state in
    common.
    """
    found: list[StateFile] = []
    for manifest in root.tasks:
        found += [_narrow(file, share) for file in manifest.files if file.state in steps]
    return tuple(sorted((f for f in found if f.groups), key=lambda f: f.order))


def splits_of(
    root: RootManifest, plan: PhysicalPlan, source: str, splits: tuple[SplitId, ...]
) -> tuple[SplitState, ...]:
    """Return the stored states of a source's splits, in that order: another may have such names.

    Raises StateError on a lost one.
    """
    stored = all_splits_of(root, plan, source)
    lost = [split for split in splits if split not in stored]
    if lost:
        raise StateError(f"checkpoint {root.epoch} does not know where splits stand: {lost}")
    return tuple(stored[split] for split in splits)


def all_splits_of(root: RootManifest, plan: PhysicalPlan, source: str) -> dict[SplitId, SplitState]:
    """Return the stored states of all splits of a source, by name."""
    homes = _homes(root, plan, (source,))
    return {s.split: s for m in homes for s in m.splits}


def watermark_of(root: RootManifest, plan: PhysicalPlan, task: TaskId) -> int | None:
    """Return where a task's event time stands in a checkpoint; None where nothing is known.

    It is the task's own where its steps were in the same stage. Else, and for one that joins, it
    is the least of all tasks that had those of its steps that keep something: no step is told of
    a time that it has not reached.
    """
    marks = _marks(root, plan, task)
    return None if None in marks else min((m for m in marks if m is not None), default=None)


def emitted_until(root: RootManifest, plan: PhysicalPlan, task: TaskId) -> int | None:
    """Return the time up to which some task had emitted the windows that ``task`` takes over.

    A row for such a window is late, or the window would be emitted twice.
    """
    return max((m for m in _marks(root, plan, task) if m is not None), default=None)


def _marks(root: RootManifest, plan: PhysicalPlan, task: TaskId) -> list[int | None]:
    """List the watermarks of those that ``task`` follows: its own, or those of whole stages."""
    steps = plan.stages[task.stage].steps
    keeping = tuple(s.step for s in plan.states if s.step in steps and s.kind != SINK)
    homes = _homes(root, plan, keeping or steps)
    own = [m for m in homes if m.task == task]
    stays = bool(own) and {m.task.stage for m in homes} == {task.stage}
    return [m.watermark_us for m in (own if stays else homes)]


def _homes(root: RootManifest, plan: PhysicalPlan, steps: tuple[str, ...]) -> list[TaskManifest]:
    """List what the tasks have stored in whose stage one of ``steps`` was."""
    stages = root.steps or plan.steps
    had = {i for i, names in enumerate(stages) if any(s in names for s in steps)}
    return [m for m in root.tasks if m.task.stage in had]


def _narrow(file: StateFile, share: Share) -> StateFile:
    return replace(file, groups=intersect(file.groups, share))
