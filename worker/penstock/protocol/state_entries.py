"""The entries of a checkpoint: which a task reads, which it lists, and which it may merge.

Reading is pure narrowing of manifests. Stored state is found by the names of the stage's steps,
whatever stage they were in when the snapshot was taken. A state file may hold groups that a
reader does not own. The reader must see only its own range. Otherwise a key that was deleted elsewhere would come back.

The entries that a task lists (:class:`FileList`):

    committed entries --cut--> committed + delta (or merged + delta) --confirm--> committed
                          |--abort--> nothing: the next cut begins at the committed ones again

A delta holds every change since the last commit, so a listing is always built on committed files. A
file of an aborted epoch, delta or merged, is never listed again.
"""

from collections.abc import Collection, Sequence

from penstock.base.errors import StateError
from penstock.base.values import replace
from penstock.contract.codec import ABSENT
from penstock.contract.ids import BlobName, Epoch, SplitId, TaskId
from penstock.contract.keygroups import Share, intersect, subtract, to_share
from penstock.contract.manifest import GroupsTime, RootManifest, SplitState, StateFile, TaskManifest
from penstock.contract.plan import SINK, PhysicalPlan, StagePlan

Files = tuple[StateFile, ...]


def entries_of(root: RootManifest, steps: tuple[str, ...], share: Share) -> tuple[StateFile, ...]:
    """Return the entries of steps narrowed to ``share``, in an order in which they may be loaded.

    Entries of one task keep their order. Entries of different tasks have no group of a state in
    common.
    """
    found: list[StateFile] = []
    for manifest in root.tasks:
        found += [_narrow(file, share) for file in manifest.files if file.step in steps]
    return tuple(sorted((f for f in found if f.groups), key=lambda f: f.order))


def copies_of(root: RootManifest, stage: StagePlan) -> tuple[StateFile, ...]:
    """Return the entries of side tables, of which each task of a stage has a copy, whatever groups it has."""
    wanted = () if stage.copies is ABSENT else stage.copies
    return in_order([file for manifest in root.tasks for file in manifest.files if file.state in wanted])


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


def watermark_of(root: RootManifest, plan: PhysicalPlan, task: TaskId, share: Share) -> int | None:
    """Return the watermark of a task that takes over ``share`` in a checkpoint; None where none is known.

    It is the task's own watermark if its steps were in the same stage. Else, and for a task that
    joins, it is the least watermark of the tasks that had those of its steps that keep state. A task
    that gives one of the groups may have reached less: its windows and timers have not fired. So
    no step is told a time that it has not reached.
    """
    marks = [m.watermark_us for m in (*_followed(root, plan, task), *_givers(root, plan, task, share))]
    return None if None in marks else min((m for m in marks if m is not None), default=None)


def fired_until(root: RootManifest, plan: PhysicalPlan, task: TaskId, share: Share) -> tuple[GroupsTime, ...]:
    """Return the time up to which windows and timers of the groups of ``share`` may have fired.

    A row for such a window is late. Otherwise the window would be emitted twice. The entries of a task
    say which groups it had. A group without entries has no state that says who had it: the
    greatest time counts. A group is there several times when its steps were in several stages.
    """
    found: list[GroupsTime] = []
    left = share
    for manifest in _givers(root, plan, task, share):
        mine = intersect(share, _groups_of(manifest, plan.stages[task.stage].steps))
        left = subtract(left, mine)
        found += _times(manifest, mine)
    latest = max((m.watermark_us for m in _followed(root, plan, task) if m.watermark_us is not None), default=None)
    return (*found, GroupsTime(left, latest)) if left and latest is not None else tuple(found)


def _times(manifest: TaskManifest, share: Share) -> list[GroupsTime]:
    firing = () if manifest.firing is ABSENT else manifest.firing
    found = [GroupsTime(groups, f.time_us) for f in firing if (groups := intersect(f.groups, share))]
    rest = subtract(share, tuple(r for f in found for r in f.groups))
    if rest and manifest.watermark_us is not None:
        found.append(GroupsTime(rest, manifest.watermark_us))
    return found


def _givers(root: RootManifest, plan: PhysicalPlan, task: TaskId, share: Share) -> list[TaskManifest]:
    """List the manifests of the tasks that had state of groups of ``share``, ``task`` among them."""
    steps = plan.stages[task.stage].steps
    return [m for m in root.tasks if intersect(share, _groups_of(m, steps))] if share else []


def _groups_of(manifest: TaskManifest, steps: tuple[str, ...]) -> Share:
    return groups_of_files([f for f in manifest.files if f.step in steps])


def _followed(root: RootManifest, plan: PhysicalPlan, task: TaskId) -> list[TaskManifest]:
    """List the manifests whose time ``task`` takes over: its own, or those of whole stages."""
    steps = plan.stages[task.stage].steps
    keeping = tuple(s.step for s in plan.states if s.step in steps and s.kind != SINK)
    homes = _homes(root, plan, keeping or steps)
    own = [m for m in homes if m.task == task]
    stays = bool(own) and {m.task.stage for m in homes} == {task.stage}
    return own if stays else homes


def _homes(root: RootManifest, plan: PhysicalPlan, steps: tuple[str, ...]) -> list[TaskManifest]:
    """List the manifests of the tasks whose stage had one of ``steps``."""
    stages = root.steps or plan.steps
    had = {i for i, names in enumerate(stages) if any(s in names for s in steps)}
    return [m for m in root.tasks if m.task.stage in had]


def _narrow(file: StateFile, share: Share) -> StateFile:
    return replace(file, groups=intersect(file.groups, share))


class FileList:
    """The entries of one task: the committed ones, and those that snapshots under way would list."""

    __slots__ = ("_proposed", "committed")

    def __init__(self, committed: Files = ()) -> None:
        """Begin with the entries that the task was restored from."""
        self.committed = committed
        self._proposed: dict[Epoch, Files] = {}

    def propose(self, epoch: Epoch, listing: Files) -> None:
        """Remember what the manifest of ``epoch`` lists, in case it is committed."""
        self._proposed[epoch] = listing

    def confirm(self, epoch: Epoch) -> None:
        """Note that ``epoch`` is committed. The listings of older snapshots are forgotten."""
        self.committed = self._proposed.get(epoch, self.committed)
        self._proposed = {e: files for e, files in self._proposed.items() if e > epoch}

    def gain(self, files: Files) -> None:
        """Take over entries of gained groups, narrowed as given."""
        self.committed = in_order((*self.committed, *files))

    def lose(self, share: Share, copies: Collection[str] = ()) -> None:
        """Narrow every entry to the groups that are left, and remove empty ones. The states ``copies`` stay whole."""
        narrowed = (f if f.state in copies else replace(f, groups=subtract(f.groups, share)) for f in self.committed)
        self.committed = tuple(f for f in narrowed if f.groups)


def in_order(files: Sequence[StateFile]) -> Files:
    """Sort entries in the order of loading: a later entry overwrites an earlier one."""
    return tuple(sorted(files, key=lambda f: (f.order, f.blob.name)))


def next_order(files: Sequence[StateFile]) -> int:
    """Return an order number behind all entries, own and gained."""
    return 1 + max((f.order for f in files), default=0)


def to_merge(files: Sequence[StateFile], files_max: int) -> Files:
    """Choose the newest entries of one state to merge so that at most ``files_max`` stay listed.

    With fewer entries nothing is merged. Else at least half of the entries are merged, from the
    newest on, and older ones while each is no larger than all newer ones together. So the number of
    times that a byte is rewritten grows only with the logarithm of the state.
    """
    if len(files) < files_max:
        return ()
    ordered = in_order(files)
    start = len(ordered) - max(files_max // 2, 2)
    size = sum(f.blob.size for f in ordered[start:])
    while start > 0 and ordered[start - 1].blob.size <= size:
        start -= 1
        size += ordered[start].blob.size
    return ordered[start:]


def through_last(files: Sequence[StateFile], names: Collection[BlobName]) -> Files:
    """Return the entries of one state up to the last one in ``names``, in order; nothing if there is none.

    Older entries are among them, so merging them lets no older row come after a newer one.
    """
    ordered = in_order(files)
    last = max((i for i, f in enumerate(ordered) if f.blob.name in names), default=-1)
    return ordered[: last + 1]


def drops_tombstones(merged: Sequence[StateFile], files: Sequence[StateFile]) -> bool:
    """Return whether tombstones may be dropped: a merge covers all older entries of its range."""
    groups = groups_of_files(merged)
    newest = max(f.order for f in merged)
    left = [f for f in files if f not in merged and f.order < newest]
    return not any(intersect(f.groups, groups) for f in left)


def groups_of_files(files: Sequence[StateFile]) -> Share:
    """Return every group that an entry shows."""
    groups = {g for f in files for r in f.groups for g in range(r.start, r.stop)}
    return to_share(groups)
