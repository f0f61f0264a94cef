"""The entries of a checkpoint that a task reads: pure narrowing of manifests.

Stored state is found by the names of the stage's steps, whatever stage they were in when the
snapshot was taken. A state file may hold groups that a reader does not own. The reader must see
only its own range. Otherwise a key that was deleted elsewhere would come back.
"""

from penstock.base.errors import StateError
from penstock.base.values import replace
from penstock.contract.ids import SplitId, TaskId
from penstock.contract.keygroups import Share, intersect
from penstock.contract.manifest import RootManifest, SplitState, StateFile, TaskManifest
from penstock.contract.plan import SINK, PhysicalPlan


def entries_of(root: RootManifest, steps: tuple[str, ...], share: Share) -> tuple[StateFile, ...]:
    """Return the entries of steps narrowed to ``share``, in an order in which they may be loaded.

    Entries of one task keep their order. Entries of different tasks have no group of a state in
    common.
    """
    found: list[StateFile] = []
    for manifest in root.tasks:
        found += [_narrow(file, share) for file in manifest.files if file.state in steps]
    return tuple(sorted((f for f in found if f.groups), key=lambda f: f.order))


def splits_of(
    root: RootManifest, plan: PhysicalPlan, source: str, splits: tuple[SplitId, ...]
) -> tuple[SplitState, ...]:
    """Return the stored states of a source's splits, in the order of ``splits``.

    Another source may have splits of the same names. Raises StateError when one is not stored.
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
    """Return the watermark of a task in a checkpoint; None where none is known.

    It is the task's own watermark if its steps were in the same stage. Else, and for a task that
    joins, it is the least watermark of the tasks that had those of its steps that keep state. So no
    step is told a time that it has not reached.
    """
    marks = _marks(root, plan, task)
    return None if None in marks else min((m for m in marks if m is not None), default=None)


def emitted_until(root: RootManifest, plan: PhysicalPlan, task: TaskId) -> int | None:
    """Return the time up to which some task has emitted the windows that ``task`` takes over.

    A row for such a window is late. Otherwise the window would be emitted twice.
    """
    return max((m for m in _marks(root, plan, task) if m is not None), default=None)


def _marks(root: RootManifest, plan: PhysicalPlan, task: TaskId) -> list[int | None]:
    """List the watermarks that ``task`` takes over: its own, or those of whole stages."""
    steps = plan.stages[task.stage].steps
    keeping = tuple(s.step for s in plan.states if s.step in steps and s.kind != SINK)
    homes = _homes(root, plan, keeping or steps)
    own = [m for m in homes if m.task == task]
    stays = bool(own) and {m.task.stage for m in homes} == {task.stage}
    return [m.watermark_us for m in (own if stays else homes)]


def _homes(root: RootManifest, plan: PhysicalPlan, steps: tuple[str, ...]) -> list[TaskManifest]:
    """List the manifests of the tasks whose stage had one of ``steps``."""
    stages = root.steps or plan.steps
    had = {i for i, names in enumerate(stages) if any(s in names for s in steps)}
    return [m for m in root.tasks if m.task.stage in had]


def _narrow(file: StateFile, share: Share) -> StateFile:
    return replace(file, groups=intersect(file.groups, share))
