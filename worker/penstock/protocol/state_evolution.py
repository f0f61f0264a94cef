"""How the fields of a state with types have changed since a checkpoint, and whether their values are taken over.

::

    stored field ── the state has it ── with the same type ─────────────────> kept
                 │                  ├─ with a type that holds all values ───> widened
                 │                  └─ with another one ────────────────────> refused
                 └─ the state has it not ───────────────────────────────────> dropped: the values are not read
    a field that is not stored ─────────────────────────────────────────────> added: keys that are there get its default

A state has a stored field if it has one of that name, or else one whose ``ps.renamed`` is that name. A type holds all
values of another one if it is:

- a number of more bits, or a float that has all of these whole numbers
- a decimal number of more digits, of which as many are behind the point
- the same type, or None: ``T | None``
- an Enum that begins with the same texts: codes keep their meaning
- a ring with other room: the newest values stay
- a list or map whose values have such a type, and a map or set whose keys are an Enum with more texts at its end

The rules need names and texts only, so the leader and the command line know them without the user's module.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from penstock.contract.codec import ABSENT
from penstock.contract.plan import StateColumn, StepState

_NUMBER = re.compile(r"(int|uint|float)(8|16|32|64)")
_FLOATS = {"float": "float32", "double": "float64"}  # as Arrow spells them
_EXACT_BITS = {"32": 24, "64": 53}  # a float of so many bits has all whole numbers of so many bits
_DECIMAL = re.compile(r"decimal128\((\d+), (\d+)\)")
_RING = re.compile(r"Ring\[(.*), \d+\]")
_ENTRIES = re.compile(r"(List|Map|Set)\[(.*)\]")
_NULLABLE = " | None"
_MARKS = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[\[(]|[\])]|, """)  # a quoted text, a bracket, a comma


class Fate(StrEnum):
    """What becomes of a field."""

    KEPT = "kept"
    WIDENED = "widened"
    RENAMED = "renamed"
    ADDED = "added"
    DROPPED = "dropped"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field and what becomes of it. ``had`` and ``has`` are its types as messages show them, empty if it has none.

    ``was`` is the name under which it is stored, if that is another one.
    """

    field: str
    fate: Fate
    had: str = ""
    has: str = ""
    was: str = ""

    def __str__(self) -> str:
        """Say it as ``penstock validate`` does."""
        match self.fate:
            case Fate.KEPT:
                return f"{self.field}: {self.has} is taken over"
            case Fate.WIDENED:
                return f"{self.field}: {self.has} takes over the values of {self.had}"
            case Fate.RENAMED:
                return f"{self.field}: {self.has} takes over the values of {self.was}: {self.had}"
            case Fate.ADDED:
                return f"{self.field}: {self.has} is new: keys that are there get its default"
            case Fate.DROPPED:
                return f"{self.field}: {self.had} is dropped: its values are given up"
            case Fate.REFUSED if self.was and not self.had:
                return f"{self.field} is stored itself, so it cannot be the renamed {self.was}"
            case Fate.REFUSED:
                return f"{self.field} was {self.was and f'{self.was}: '}{self.had} and is {self.has}"


def is_typed(state: StepState) -> bool:
    """Return whether the state is that of a function with types, whose fields may change."""
    return bool(state.columns) and all(column.number for column in state.columns)


def field_changes(stored: StepState, wanted: StepState) -> tuple[FieldChange, ...]:
    """Return what becomes of each field of two states with types: first of those that the job has, in its order."""
    had = {column.name: column for column in stored.columns}
    taken = {name for column in wanted.columns for name in (column.name, column.renamed)}
    dropped = (FieldChange(c.name, Fate.DROPPED, c.type) for c in stored.columns if c.name not in taken)
    return (*(_of(column, had) for column in wanted.columns), *dropped)


def _of(wanted: StateColumn, had: Mapping[str, StateColumn]) -> FieldChange:
    name, has = wanted.name, wanted.type
    was = "" if wanted.renamed is ABSENT or wanted.renamed not in had else wanted.renamed
    if name in had and was:
        return FieldChange(name, Fate.REFUSED, "", has, was)
    stored = had.get(was or name)
    if stored is None:
        return FieldChange(name, Fate.ADDED, has=has)
    if not takes_over(stored.type, has):
        return FieldChange(name, Fate.REFUSED, stored.type, has, was)
    fate = Fate.RENAMED if was else Fate.KEPT if stored.type == has else Fate.WIDENED
    return FieldChange(name, fate, stored.type, has, was)


def takes_over(had: str, has: str) -> bool:
    """Return whether a field of type ``has`` takes over all values of one of type ``had``, as messages show types."""
    if had == has:
        return True
    if has.endswith(_NULLABLE):
        return takes_over(had.removesuffix(_NULLABLE), has.removesuffix(_NULLABLE))
    rings = _RING.fullmatch(had), _RING.fullmatch(has)
    if rings[0] and rings[1]:
        return takes_over(rings[0][1], rings[1][1])
    decimals = _DECIMAL.fullmatch(had), _DECIMAL.fullmatch(has)
    if decimals[0] and decimals[1]:
        return decimals[0][2] == decimals[1][2] and int(decimals[0][1]) <= int(decimals[1][1])
    entries = _ENTRIES.fullmatch(had), _ENTRIES.fullmatch(has)
    if entries[0] and entries[1]:
        return entries[0][1] == entries[1][1] and _take_over_entries(entries[0][1], entries[0][2], entries[1][2])
    if had.startswith("Enum["):
        return has.startswith(had.removesuffix("]") + ", ")
    return widens_number(_FLOATS.get(had, had), _FLOATS.get(has, has))


def _take_over_entries(kind: str, had: str, has: str) -> bool:
    """Return whether entries take over others. Their keys are found by what is kept of them, so only an Enum grows."""
    before, now = _parts(had), _parts(has)
    keys = 0 if kind == "List" else 1
    key_fits = before[:keys] == now[:keys] or (before[0].startswith("Enum[") and takes_over(before[0], now[0]))
    return key_fits and len(before) == len(now) and all(map(takes_over, before[keys:], now[keys:]))


def _parts(text: str) -> list[str]:
    """Split a list of types at its commas, of which those in brackets and quotes are none."""
    found, start, depth = [], 0, 0
    for mark in _MARKS.finditer(text):
        depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(mark[0], 0)
        if mark[0] == ", " and depth == 0:
            found.append(text[start : mark.start()])
            start = mark.end()
    return [*found, text[start:]]


def widens_number(had: str, has: str) -> bool:
    """Return whether numbers of type ``has`` are all numbers of another type ``had``. Types are named as in NumPy."""
    numbers = _NUMBER.fullmatch(had), _NUMBER.fullmatch(has)
    if not numbers[0] or not numbers[1]:
        return False
    (kind, bits), (wider, more) = numbers[0].groups(), numbers[1].groups()
    if wider == "float":
        return int(bits) < int(more) if kind == "float" else int(bits) <= _EXACT_BITS.get(more, 0)
    return kind != "float" and int(bits) < int(more) and kind in {wider, "uint"}
