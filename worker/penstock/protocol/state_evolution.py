"""How the fields of a state with types have changed since a checkpoint, and whether their values are taken over.

::

    stored field ── the state has one of that name ── of the same type ──> kept
                 │                                 └─ of another one ────> refused
                 └─ the state has none ──────────────────────────────────> dropped: the values are not read
    a field that is not stored ──────────────────────────────────────────> added: keys that are there get its default

The rules need names and texts only, so the leader and the command line know them without the user's module.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from penstock.contract.plan import StateColumn, StepState


class Fate(StrEnum):
    """What becomes of a field."""

    KEPT = "kept"
    ADDED = "added"
    DROPPED = "dropped"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field and what becomes of it. ``had`` and ``has`` are its types as messages show them, empty if it has none."""

    field: str
    fate: Fate
    had: str = ""
    has: str = ""

    def __str__(self) -> str:
        """Say it as ``penstock validate`` does."""
        match self.fate:
            case Fate.KEPT:
                return f"{self.field}: {self.has} is taken over"
            case Fate.ADDED:
                return f"{self.field}: {self.has} is new: keys that are there get its default"
            case Fate.DROPPED:
                return f"{self.field}: {self.had} is dropped: its values are given up"
            case Fate.REFUSED:
                return f"{self.field} was {self.had} and is {self.has}"


def is_typed(state: StepState) -> bool:
    """Return whether the state is that of a function with types, whose fields may change."""
    return bool(state.columns) and all(column.number for column in state.columns)


def field_changes(stored: StepState, wanted: StepState) -> tuple[FieldChange, ...]:
    """Return what becomes of each field of two states with types: first of those that the job has, in its order."""
    had = {column.name: column for column in stored.columns}
    has = {column.name for column in wanted.columns}
    dropped = (FieldChange(c.name, Fate.DROPPED, c.type) for c in stored.columns if c.name not in has)
    return (*(_of(column, had) for column in wanted.columns), *dropped)


def _of(wanted: StateColumn, had: Mapping[str, StateColumn]) -> FieldChange:
    stored = had.get(wanted.name)
    if stored is None and wanted.renamed in had:
        return FieldChange(wanted.name, Fate.REFUSED, f"named {wanted.renamed}", wanted.type)  # not taken over yet
    if stored is None:
        return FieldChange(wanted.name, Fate.ADDED, has=wanted.type)
    fate = Fate.KEPT if stored.type == wanted.type else Fate.REFUSED
    return FieldChange(wanted.name, fate, stored.type, wanted.type)
