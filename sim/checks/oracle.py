"""The oracle: the output and the state that the job must have, computed from its input without faults.

E  at the end committed output equals the reference's as a multiset; before that there is never a
   wrong or repeated row
O  the rows of a key are in order, when visible files are read by name and then by row
C  each snapshot is exactly the fold of the records before its offsets; every file that a retained
   manifest lists exists and is whole when it is copied elsewhere and read alone
N  at rest there is no file that no manifest lists

The reference shares nothing with the core but the two formats that it must read.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from penstock.contract.codec import ABSENT
from penstock.contract.ids import BlobName, SplitId, TaskId
from penstock.contract.keygroups import groups_of
from penstock.contract.manifest import RootManifest, SplitState, StateFile
from penstock.contract.plan import Assignment
from sim import interval_steps as intervals
from sim.checks.firing_oracle import FIRING_JOBS, expected_firing_state, expected_firings
from sim.cluster.services import Disk, Torn, ref_of
from sim.kernel.kernel import Violation
from sim.workload import (
    COUNTERS,
    LONG,
    SimJob,
    SimRecord,
    counts_half,
    fires,
    fires_at,
    group_of,
    is_late,
    long_end,
    long_fires,
    window_end,
)

StateKey = tuple[int, ...]
State = dict[StateKey, tuple[int, ...]]


WINDOWED = {"window", "cascade"}
_UNORDERED = {*WINDOWED, "interval", *FIRING_JOBS}
_BRANCHES = {"count": ("",), "diamond": ("x", "y"), "pair": COUNTERS}


# --- What each job must say of a prefix of its input


def expected_rows(job: SimJob) -> Counter[tuple[str, tuple[object, ...]]]:
    """Count the rows of the whole input, without what may differ between two correct runs.

    A running count is right whichever of two concurrent records got it, so counts and origins
    are compared apart.
    """
    rows: Counter[tuple[str, tuple[object, ...]]] = Counter()
    records = [r for split in job.input.values() for r in split]
    if job.name in WINDOWED:
        ends = Counter((r.key, window_end(r.ts)) for r in records if not is_late(r))
        if job.name == "cascade":
            ends = Counter({(key, end): n for (key, end, _), (n,) in _long_windows(ends).items()})
        rows.update(("out", (key, end, n)) for (key, end), n in ends.items())
        rows.update(("late", (r.key, r.split, r.offset)) for r in records if is_late(r))
        return rows
    if job.name == "interval":
        return _joined(records)
    if job.name in FIRING_JOBS:
        return expected_firings(job.name, records)
    for branch in _BRANCHES[job.name]:
        counted = [r for r in records if branch != "half" or counts_half(r)]
        for key, total in Counter(r.key for r in counted).items():
            rows.update(("count", (key, branch, n)) for n in range(1, total + 1))
        rows.update(("origin", (r.key, branch, r.split, r.offset)) for r in counted)
    return rows


def _joined(records: list[SimRecord]) -> Counter[tuple[str, tuple[object, ...]]]:
    """Compare each left record with each right record. Both are on time."""
    rows: Counter[tuple[str, tuple[object, ...]]] = Counter()
    matched: set[tuple[SplitId, int]] = set()
    late = [r for r in records if r.ts + intervals.LATENESS_US < r.bound]
    kept = [r for r in records if r.ts + intervals.LATENESS_US >= r.bound]
    lefts, rights = ([r for r in kept if intervals.side_of(r.split) == side] for side in intervals.SIDES)
    for one in lefts:
        for other in rights:
            if one.key == other.key and intervals.LOWER_US <= other.ts - one.ts <= intervals.UPPER_US:
                rows["out", (one.key, one.split, one.offset, other.split, other.offset)] += 1
                matched |= {(one.split, one.offset), (other.split, other.offset)}
    rows.update(("out", (r.key, r.split, r.offset, "", -1)) for r in lefts if (r.split, r.offset) not in matched)
    rows.update(("out", (r.key, "", -1, r.split, r.offset)) for r in rights if (r.split, r.offset) not in matched)
    rows.update(("late", (r.key, r.split, r.offset)) for r in late)
    return rows


def _kept(prefix: list[SimRecord], watermark: dict[int, int | None], groups: int) -> State:
    """Return the entries of an interval join whose tasks have read a prefix up to their watermarks."""
    state: State = {}
    by_key: dict[int, list[SimRecord]] = {}
    for record in prefix:
        if record.ts + intervals.LATENESS_US >= record.bound:
            by_key.setdefault(record.key, []).append(record)
    for key, records in by_key.items():
        reached = watermark.get(group_of(key, groups))
        come = [intervals.entry(r) for r in records if intervals.passed(r.ts, reached)]
        state.update((intervals.entry(r), (0, 0)) for r in records if not intervals.passed(r.ts, reached))
        for one in come:
            if not intervals.passed(intervals.gone_at(one[2], one[1]), reached):
                state[one] = (1, int(any(intervals.near(one, other) for other in come)))
    return state


def stripped(job: SimJob, sink: str, row: tuple[object, ...]) -> list[tuple[str, tuple[object, ...]]]:
    """Reduce a visible row in the way of :func:`expected_rows`."""
    if job.name in _UNORDERED:
        return [(sink, row)]
    if job.name == "count":
        key, count, split, offset = row
        branch: object = ""
    else:
        key, branch, count, split, offset = row
    return [("count", (key, branch, count)), ("origin", (key, branch, split, offset))]


def expected_state(job: SimJob, root: RootManifest, table: Assignment, found: State) -> State:
    """Fold the records before the offsets of a checkpoint into the state it must hold.

    ``table`` is the assignment under which its tasks were cut: before a rescale, the old one. ``found`` says which
    windows have fired where the manifest says that some have and others have not.
    """
    offsets = {s.split: s.offset for t in root.tasks for s in t.splits}
    prefix = [r for split, rows in job.input.items() for r in rows[: offsets.get(split, 0)]]
    if job.name == "count":
        return {(k,): (n,) for k, n in Counter(r.key for r in prefix).items()}
    if job.name == "pair":
        every = Counter((r.key, 1) for r in prefix)
        every.update((r.key, 0) for r in prefix if counts_half(r))
        return {key: (n,) for key, n in every.items()}
    if job.name == "diamond":
        return {(k,): (n, n) for k, n in Counter(r.key for r in prefix).items()}
    if job.name == "interval":
        watermark = {g: t.watermark_us for t in root.tasks for g in groups_of(table.share_of(t.task))}
        return _kept(prefix, watermark, job.shape.groups)
    if job.name in FIRING_JOBS:
        return expected_firing_state(job.name, prefix, *_times(job, root, table, job.name), found)
    counts = Counter((r.key, window_end(r.ts)) for r in prefix if not is_late(r))
    reached, firing = _times(job, root, table, "window")
    fired = {
        (key, end)
        for key, end in counts
        if fires(end, reached(key)) or (fires(end, firing(key)) and (key, end) not in found)
    }
    wanted: State = {key: (n,) for key, n in counts.items() if key not in fired}
    if job.name == "cascade":
        reached, firing = _times(job, root, table, "long")
        for (key, end, _), n in _long_windows(Counter({k: counts[k] for k in fired})).items():
            gone = long_fires(end, firing(key)) and (key, end, LONG) not in found
            if not long_fires(end, reached(key)) and not gone:
                wanted[key, end, LONG] = n
    return wanted


def _long_windows(windows: Counter[tuple[int, int]]) -> State:
    """Add the counts of windows up, by key and long window."""
    totals: Counter[tuple[int, int]] = Counter()
    for (key, end), n in windows.items():
        totals[key, long_end(fires_at(end) - 1)] += n
    return {(key, end, LONG): (n,) for (key, end), n in totals.items()}


Time = Callable[[int], int | None]


def _times(job: SimJob, root: RootManifest, table: Assignment, step: str) -> tuple[Time, Time]:
    """Return the time that the tasks of a step have reached, and that up to which some windows have fired, by key."""
    tasks = [t for t in root.tasks if job.stage_step(t.task.stage) == step]
    reached = {g: t.watermark_us for t in tasks for g in groups_of(table.share_of(t.task))}
    told = {g: f.time_us for t in tasks if t.firing is not ABSENT for f in t.firing for g in groups_of(f.groups)}
    groups = job.shape.groups
    return lambda key: reached.get(group_of(key, groups)), lambda key: told.get(group_of(key, groups))


# --- Restoring a checkpoint alone


def restored_state(job: SimJob, root: RootManifest, files: dict[BlobName, object]) -> State:
    """Restore a checkpoint from a copy of its files: each task's entries, in order, narrowed."""
    state: State = {}
    owner: dict[tuple[int, int], TaskId] = {}
    for task in root.tasks:
        for entry in sorted(task.files, key=lambda f: f.order):
            for group in groups_of(entry.groups):
                other = owner.setdefault((task.task.stage, group), task.task)
                if other != task.task:
                    raise Violation("C", f"{task.task} and {other} both list group {group}")
            _read_entry(job, entry, files, state)
    return state


def _read_entry(job: SimJob, entry: StateFile, files: dict[BlobName, object], into: State) -> None:
    content = files.get(entry.blob.name)
    if content is None or isinstance(content, Torn):
        raise Violation("C", f"state file {entry.blob.name} of a checkpoint is gone or torn")
    if ref_of(entry.blob.name, content) != entry.blob:
        raise Violation("C", f"state file {entry.blob.name} of a checkpoint is altered")
    assert isinstance(content, Iterable)
    groups = set(groups_of(entry.groups))
    for key, value in content:
        if group_of(key[0], job.shape.groups) not in groups:
            continue
        if value is None:
            into.pop(key, None)
        else:
            into[key] = value


def check_restorable(job: SimJob, root: RootManifest, table: Assignment, disk: Disk) -> None:
    """C for one checkpoint: copy what it lists, restore the copy, compare with the fold."""
    names = [f.blob.name for t in root.tasks for f in t.files]
    copy = {name: disk.files[name] for name in names if name in disk.files}
    found = restored_state(job, root, copy)
    wanted = expected_state(job, root, table, found)
    if found != wanted:
        raise Violation("C", f"epoch {root.epoch} holds {_difference(found, wanted)}")
    offsets(job, root)


def offsets(job: SimJob, root: RootManifest) -> dict[SplitId, SplitState]:
    """Return the offset of each split. Every split must be stored exactly once."""
    states = [s for t in root.tasks for s in t.splits]
    names = Counter(s.split for s in states)
    if names != Counter(job.input.keys()):
        raise Violation("C", f"epoch {root.epoch} lists splits {dict(names)}")
    return {s.split: s for s in states}


def _difference(found: State, wanted: State) -> str:
    keys = sorted(k for k in found.keys() | wanted.keys() if found.get(k) != wanted.get(k))
    parts = [f"{k}: {found.get(k)} instead of {wanted.get(k)}" for k in keys[:4]]
    return f"{len(keys)} wrong entries, {'; '.join(parts)}"


# --- Output


class OutputJudge:
    """Checks the visible output: each file when it appears."""

    def __init__(self, job: SimJob) -> None:
        self._job = job
        self._expected = expected_rows(job)
        self._seen: Counter[tuple[str, tuple[object, ...]]] = Counter()
        self.replay = False  # repeated output was accepted: shown as at-least-once

    def appeared(self, target: str, sink: str, rows: Iterable[tuple[object, ...]]) -> None:
        """Take a file that became visible. Raises Violation on a repeated or a wrong row."""
        for row in rows:
            for part in stripped(self._job, sink, row):
                self._seen[part] += 1
                if self._seen[part] > self._expected[part] and not (self.replay and self._expected[part]):
                    why = "repeated" if self._expected[part] else "wrong"
                    raise Violation("E", f"{why} output {part} in {target}")

    def given_up(self, sink: str, rows: object) -> None:
        """Take rows off that must never appear from now on."""
        assert isinstance(rows, tuple)
        if not self.replay:
            self._expected -= Counter(part for row in rows for part in stripped(self._job, sink, row))

    def finish(self, visible: dict[str, object]) -> None:
        """Compare at the end: no row is missing, and each key is in order."""
        missing = self._expected - self._seen
        if missing:
            few = ", ".join(str(m) for m in sorted(missing, key=str)[:4])
            raise Violation("E", f"{missing.total()} rows of output are missing: {few}")
        self.check_order(visible)

    def check_order(self, visible: dict[str, object]) -> None:
        """Check O in order of files and rows: counts of a key rise by one, and its offsets in a split rise."""
        if self._job.name in _UNORDERED or self.replay:
            return
        counts: dict[object, int] = {}
        last: dict[object, int] = {}
        for target in sorted(visible):
            rows = visible[target]
            assert isinstance(rows, tuple)
            for row in rows:
                branch, (key, count, split, offset) = _order_parts(self._job, row)
                due = counts.get((key, branch), 0) + 1
                if count != due:
                    raise Violation("O", f"key {key} shows {count} where {due} is due in {target}")
                if offset <= last.get((key, branch, split), -1):
                    raise Violation("O", f"key {key} of {split} goes back to {offset} in {target}")
                counts[key, branch] = count
                last[key, branch, split] = offset


def _order_parts(job: SimJob, row: tuple[object, ...]) -> tuple[object, tuple[object, int, object, int]]:
    if job.name == "count":
        key, count, split, offset = row
        branch: object = ""
    else:
        key, branch, count, split, offset = row
    assert isinstance(count, int)
    assert isinstance(offset, int)
    return branch, (key, count, split, offset)


def late_records(job: SimJob) -> list[SimRecord]:
    """List the records that are late by their own stamp."""
    return [r for split in job.input.values() for r in split if is_late(r)]
