"""Phases change only as their table says.

A state machine of this package has an enumeration of its phases and a literal table
``TRANSITIONS``: from each phase to those that may follow it. The diagram in the docstring of such
a module is rendered from the table by ``python -m tools.phases --write``.
"""

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

Phase = TypeVar("Phase", bound=Enum)


def checked(table: Mapping[Phase, tuple[Phase, ...]], before: Phase, after: Phase) -> Phase:
    """Return ``after``. Raises AssertionError when ``table`` has no way from ``before`` to it."""
    kind = type(before).__name__
    assert after in table[before], f"{kind} has no transition from {before.name} to {after.name}"
    return after
