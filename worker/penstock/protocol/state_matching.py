"""The state that a job takes over from a checkpoint: it is found by the name of its step.

::

    stored state ── a step of that name and kind, equal keys, columns, times ──> taken over
                 ── the same, with the fields that ``ps.migrate`` converts ────> migrated
                 ── the same, with types, of which fields have changed ────────> as ``state_evolution`` says
                 ── a step of that name, anything else ────────────────────────> refused
                 ── no such step ── named by restore.dropState ────────────────> given up
                                 ── not named ─────────────────────────────────> refused
    a step without stored state ───────────────────────────────────────────────> begins empty

Steps without state, edges, stages and parallelism may change freely. A sink keeps only prepared
output. When that is visible, the sink may be removed or replaced by another one.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.base.suggest import unknown
from penstock.base.values import replace
from penstock.contract.codec import ABSENT
from penstock.contract.latest import ANY_STATE
from penstock.contract.manifest import ROOT_FORMAT, RootManifest, TaskManifest
from penstock.contract.plan import SINK, SOURCE, PhysicalPlan, StateColumn, StepState
from penstock.protocol.state_evolution import Fate, FieldChange, field_changes, is_typed

UNKNOWN = "?"  # a type that is not known, and so not compared
_OF_ROWS = re.compile(r"left|right|row|latest\(.*\)|top \d+\(.*\)")  # columns of rows, which are kept as bytes


@dataclass(frozen=True, slots=True)
class Match:
    """The comparison of a checkpoint with a plan.

    ``kept``, ``new`` and ``gone`` are names of steps by what happens to their state. ``changed``
    names the steps whose stored state has another shape, and ``misfits`` describes the difference
    of each of them. ``fields`` has what becomes of each field of states with types, by step; for those that are
    ``migrated`` the job has a function.
    """

    kept: tuple[str, ...]
    new: tuple[str, ...]
    gone: tuple[str, ...]
    changed: tuple[str, ...]
    misfits: tuple[str, ...]
    fields: Mapping[str, tuple[FieldChange, ...]] = field(default_factory=dict)
    migrated: Mapping[str, str] = field(default_factory=dict)

    @property
    def evolved(self) -> tuple[str, ...]:
        """Describe the fields that have changed of each step that is kept, step by step."""
        kept = ((name, self.fields.get(name, ())) for name in self.kept)
        changed = ((name, [str(c) for c in changes if c.fate is not Fate.KEPT]) for name, changes in kept)
        evolved = (f"step {name!r}: field {'; field '.join(texts)}" for name, texts in changed if texts)
        return (*evolved, *(f"step {name!r}: {text}" for name, text in self.migrated.items()))


def match(root: RootManifest, plan: PhysicalPlan) -> Match:
    """Compare the stored state with the job's, step by step. Sinks have no state."""
    stored = {s.step: s for s in known(root, plan).states if s.kind != SINK}
    wanted = {s.step: s for s in plan.states if s.kind != SINK}
    both = [name for name in wanted if name in stored]
    changed = tuple(n for n in both if not fits(stored[n], wanted[n]))
    return Match(
        kept=tuple(n for n in both if n not in changed),
        new=tuple(n for n in wanted if n not in stored),
        gone=tuple(n for n in stored if n not in wanted),
        changed=changed,
        misfits=tuple(_difference(stored[n], wanted[n]) for n in changed),
        fields={
            n: field_changes(stored[n], wanted[n])
            for n in both
            if _are_typed(stored[n], wanted[n]) and not is_migrated(stored[n], wanted[n])
        },
        migrated={
            n: f"its state [{_spelled(stored[n].columns)}] is migrated to [{_spelled(wanted[n].columns)}]"
            for n in both
            if n not in changed and is_migrated(stored[n], wanted[n])
        },
    )


def known(root: RootManifest, plan: PhysicalPlan) -> RootManifest:
    """Return a manifest of format 1 that fits the plan as format 2, any other as it is."""
    if root.format != 1 or not _fits_by_place(root, plan):
        return root
    return replace(root, states=plan.states, steps=plan.steps, format=ROOT_FORMAT)


def incompatible(root: RootManifest | None, plan: PhysicalPlan, savepoint: str | None = None) -> str | None:
    """Return why the plan cannot take over the state of ``root``, None when it can.

    ``savepoint`` is the folder that ``root`` was read from, if it was one.
    """
    if root is None:
        return None
    what = called(root, savepoint)
    if root.max_key_groups != plan.max_key_groups:
        return (
            f"StateError: {what} has {root.max_key_groups} key groups, the job "
            f"{plan.max_key_groups}: maxKeyGroups never changes in the life of a job"
        )
    if root.format == 1 and not _fits_by_place(root, plan):
        return (
            f"StateError: {what} was taken by an earlier release, and fits only "
            "the job as it was then: run that once with this release until it has taken a "
            "checkpoint, then change it; or begin without state by restore.empty"
        )
    found = match(root, plan)
    words = [*found.misfits, *(_gone(root, plan, name) for name in found.gone)]
    if not words:
        return None
    names = ", ".join((*found.changed, *found.gone))
    return (
        f"StateError: the state of {what} does not fit this job: "
        f"{'; '.join(words)}. Take that back; or give this state up by restore.dropState: "
        f"[{names}]; or begin without any state by restore.empty"
    )


def called(root: RootManifest, savepoint: str | None = None) -> str:
    """Name a checkpoint as its user knows it: a savepoint by its folder."""
    if savepoint is None:
        return f"checkpoint {root.epoch}"
    name = savepoint.rstrip("/").rpartition("/")[2]
    return f"savepoint {name!r} (checkpoint {root.epoch})"


def altered(root: RootManifest, plan: PhysicalPlan) -> str | None:
    """Return why an engine cannot load ``root``. The leader checks state that has no step."""
    if root.format == 1 or root.max_key_groups != plan.max_key_groups:
        return incompatible(root, plan)
    found = match(root, plan)
    return f"checkpoint {root.epoch}: {'; '.join(found.misfits)}" if found.misfits else None


def unpublishable(root: RootManifest, plan: PhysicalPlan) -> tuple[str, ...]:
    """Return the sinks with prepared output that no sink of the plan can publish."""
    now = {s.step: s.connector for s in plan.states if s.kind == SINK}
    then = {s.step: s.connector for s in known(root, plan).states if s.kind == SINK}
    owing = dict.fromkeys(h.sink for task in root.tasks for h in task.handles)
    return tuple(name for name in owing if name not in now or now[name] != then.get(name))


def sources_to_list(root: RootManifest | None, plan: PhysicalPlan) -> tuple[str, ...]:
    """Return the sources whose splits ``root`` does not know. Without ``root``, all sources."""
    stored = () if root is None else known(root, plan).states
    have = {s.step for s in stored if s.kind == SOURCE}
    named = (stage.source for stage in plan.stages)
    return tuple(name for name in named if name is not None and name not in have)


def without(root: RootManifest, plan: PhysicalPlan, names: Sequence[str]) -> RootManifest:
    """Return ``root`` without the state of ``names``. A name without stored state is ignored."""
    now = known(root, plan)
    drop = {s.step for s in now.states if s.step in names and s.kind != SINK}
    if ANY_STATE in names:
        drop.update(match(root, plan).gone)
    if not drop:
        return root
    tasks = tuple(_task_without(task, now.steps[task.task.stage], drop) for task in now.tasks)
    left = tuple(s for s in now.states if s.step not in drop)
    return replace(now, states=left, tasks=tasks)


def refusal(root: RootManifest, plan: PhysicalPlan, names: Sequence[str], savepoint: str | None = None) -> str | None:
    """Return why ``root`` does not fit even without the state of ``names``; None when it fits.

    The text mentions names that are not stored. When ``root`` fits, such names are no error: their
    state may have been given up before. ``savepoint`` is that of :func:`incompatible`.
    """
    why = incompatible(without(root, plan, names), plan, savepoint)
    have = [s.step for s in known(root, plan).states if s.kind != SINK]
    odd = [name for name in names if name != ANY_STATE and name not in have]
    if why is None or not odd:
        return why
    hints = (unknown("stored state of a step", name, have) for name in odd)
    return f"{why}. restore.dropState: {'; '.join(hints)}"


def _task_without(task: TaskManifest, steps: tuple[str, ...], drop: set[str]) -> TaskManifest:
    """Remove the files of dropped steps, and the splits when the source is dropped."""
    files = tuple(f for f in task.files if f.step not in drop)
    return replace(task, files=files, splits=() if drop.intersection(steps) else task.splits)


def fits(stored: StepState, wanted: StepState) -> bool:
    """Return whether a step can take over the state that is stored under its name."""
    same = (stored.kind, stored.connector, stored.times)
    return (
        same == (wanted.kind, wanted.connector, wanted.times)
        and _equal([(c.name, c.type) for c in stored.keys], [(c.name, c.type) for c in wanted.keys])
        and _columns_fit(stored, wanted)
    )


def is_migrated(stored: StepState, wanted: StepState) -> bool:
    """Return whether the fields that are stored are exactly those which a function of the job converts."""
    if wanted.migrates is ABSENT or not is_typed(stored):
        return False
    return {(c.name, c.type) for c in stored.columns} == {(c.name, c.type) for c in wanted.migrates}


def _unconverted(stored: StepState, wanted: StepState) -> list[FieldChange]:
    """List the fields that only the earlier class has, where it is not exactly the one that is stored.

    They would be given up, although the job has a function for them.
    """
    if wanted.migrates is ABSENT or not _are_typed(stored, wanted) or is_migrated(stored, wanted):
        return []
    earlier = {column.name for column in wanted.migrates}
    return [c for c in field_changes(stored, wanted) if c.fate is Fate.DROPPED and c.field in earlier]


def migrated_steps(root: RootManifest, plan: PhysicalPlan) -> tuple[str, ...]:
    """Name the steps whose stored state must be converted before it can be used."""
    stored = {s.step: s for s in known(root, plan).states}
    return tuple(s.step for s in plan.states if s.step in stored and is_migrated(stored[s.step], s))


def _are_typed(stored: StepState, wanted: StepState) -> bool:
    return is_typed(stored) and is_typed(wanted)


def _columns_fit(stored: StepState, wanted: StepState) -> bool:
    if is_migrated(stored, wanted):
        return True
    if _unconverted(stored, wanted):
        return False
    if _are_typed(stored, wanted):
        return all(change.fate is not Fate.REFUSED for change in field_changes(stored, wanted))
    return _equal(_kept(stored.columns), _kept(wanted.columns))


def _kept(columns: tuple[StateColumn, ...]) -> list[tuple[str, str]]:
    """List the stored columns. The name of a computed column does not matter; those of whole rows are all there is."""
    return [_kept_column(column) for column in columns]


def _kept_column(column: StateColumn) -> tuple[str, str]:
    if _OF_ROWS.fullmatch(column.of):
        return f"{column.of} {column.name}", column.type
    if column.of:
        return column.of, ""
    return column.name, column.type if not column.number else f"field {column.type}"


def _equal(stored: list[tuple[str, str]], wanted: list[tuple[str, str]]) -> bool:
    """Compare names and types. The command line does not know some types."""
    return len(stored) == len(wanted) and all(
        UNKNOWN in type_ or f"{UNKNOWN})" in name or (name, type_) == had
        for had, (name, type_) in zip(stored, wanted, strict=True)
    )


def _fits_by_place(root: RootManifest, plan: PhysicalPlan) -> bool:
    return bool(plan.state_fingerprint) and root.fingerprint == plan.state_fingerprint


# --- Texts ---------------------------------------------------------------------------------------


def _gone(root: RootManifest, plan: PhysicalPlan, name: str) -> str:
    stored = next(s for s in known(root, plan).states if s.step == name)
    what = "offsets" if stored.kind == SOURCE else "state"
    there = any(name in stage.steps for stage in plan.stages)
    now = "keeps no state now" if there else "is not in the job"
    return f"step {name!r}: its {what} ({_shape(stored)}) is stored, and it {now}"


def _difference(stored: StepState, wanted: StepState) -> str:
    if stored.kind != wanted.kind:
        had, has = f"a {stored.kind}", f"a {wanted.kind}"
    elif stored.connector != wanted.connector:
        had, has = f"offsets of {stored.connector}", f"a {wanted.kind} of {wanted.connector}"
    else:
        functions = _shape(stored) == _shape(wanted)
        had, has = _shape(stored, functions=functions), _shape(wanted, functions=functions)
        for title in ("keys ", "columns "):
            has = has.replace(title, "", 1)
    migrates = "" if wanted.migrates is ABSENT else f", and migrates [{_spelled(wanted.migrates)}]"
    return f"step {stored.step!r}: {_refused(stored, wanted)}stored {had}; the job has {has}{migrates}"


def _refused(stored: StepState, wanted: StepState) -> str:
    """Name the fields of a state with types that do not fit."""
    if not _are_typed(stored, wanted) or is_migrated(stored, wanted):
        return ""
    refused = [str(c) for c in field_changes(stored, wanted) if c.fate is Fate.REFUSED]
    lost = ", ".join(c.field for c in _unconverted(stored, wanted))
    if lost:
        refused.append(f"{lost} would be given up: the fields that are migrated are not exactly those that are stored")
    return f"field {', field '.join(refused)}: " if refused else ""


def _shape(state: StepState, *, functions: bool = False) -> str:
    if state.connector:
        return state.connector
    keys = ", ".join(f"{c.name}: {c.type}" for c in state.keys)
    columns = _spelled(state.columns, functions=functions)
    times = f", windows of {_times(state.times)}" if state.times else ""
    return f"keys [{keys}], columns [{columns}]{times}"


def _spelled(columns: tuple[StateColumn, ...], *, functions: bool = False) -> str:
    return ", ".join(_spell(c, functions=functions) for c in columns)


def _spell(column: StateColumn, *, functions: bool) -> str:
    of = f" = {column.of}" if functions and column.of else ""
    return f"{column.name}: {column.type}{of}"


def _times(times: tuple[int, ...]) -> str:
    size, *offset = (f"{t / 1_000_000:g} s" for t in times)
    return size if not any(times[1:]) else f"{size} from {offset[0]}"
