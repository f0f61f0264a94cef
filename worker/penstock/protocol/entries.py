"""Which entries of a checkpoint a task reads, and how: pure narrowing of manifests.

A state file may hold groups that a reader does not own; it must see only its own range, or a
key deleted elsewhere would come back.
"""

from dataclasses import replace

from penstock.base.errors import StateError
from penstock.contract.ids import SplitId, StageIndex, TaskId
from penstock.contract.keygroups import Share, intersect
from penstock.contract.manifest import RootManifest, SplitState, StateFile


def entries_of(root: RootManifest, stage: StageIndex, share: Share) -> tuple[StateFile, ...]:
    """Return the entries of a stage narrowed to ``share``, in an order that may be loaded in.

    Entries of one task keep their order; those of different tasks have no group in common.
    """
    found: list[StateFile] = []
    for manifest in root.tasks:
        if manifest.task.stage == stage:
            found += [_narrow(file, share) for file in manifest.files]
    return tuple(sorted((f for f in found if f.groups), key=lambda f: f.order))


def splits_of(
    root: RootManifest, stage: StageIndex, splits: tuple[SplitId, ...]
) -> tuple[SplitState, ...]:
    """Return the stored states of a source's splits, in that order: another may have such names.

    Raises StateError on a lost one.
    """
    stored = {s.split: s for m in root.tasks if m.task.stage == stage for s in m.splits}
    lost = [split for split in splits if split not in stored]
    if lost:
        raise StateError(f"checkpoint {root.epoch} does not know where splits stand: {lost}")
    return tuple(stored[split] for split in splits)


def watermark_of(root: RootManifest, task: TaskId) -> int | None:
    """Return a task's watermark in a checkpoint; for one that joins, the lowest of its stage."""
    stage = [m for m in root.tasks if m.task.stage == task.stage]
    for manifest in stage:
        if manifest.task == task:
            return manifest.watermark_us
    known = [m.watermark_us for m in stage if m.watermark_us is not None]
    return min(known) if len(known) == len(stage) and known else None


def lists_of(root: RootManifest, stage: StageIndex, index: int, total: int) -> tuple[str, ...]:
    """Deal the list entries of a stage out to ``total`` tasks, in order."""
    entries = [e for m in root.tasks if m.task.stage == stage for e in m.lists]
    return tuple(entries[index::total])


def _narrow(file: StateFile, share: Share) -> StateFile:
    return replace(file, groups=intersect(file.groups, share))
