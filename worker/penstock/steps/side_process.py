"""Process steps whose functions read side tables: ``f(rows, state, side)`` and, with types, ``f(r, s, side, out)``."""

from collections.abc import Callable
from typing import Any

from penstock.steps.process import ProcessStep
from penstock.steps.side_copies import ReadsSides, SideView
from penstock.steps.typed.process_step import TypedProcessStep


class SideProcessStep(ReadsSides, ProcessStep):
    """A process step with side inputs."""


class TypedSideProcessStep(ReadsSides, TypedProcessStep):
    """A process step with side inputs whose function has types."""


def reading(function: Callable[..., Any], view: SideView, *, typed: bool) -> Callable[..., Any]:
    """Return the function as it is called without side inputs: it gets ``view`` behind the state."""
    if typed:
        return lambda record, state, out, *more: function(record, state, view, out, *more)
    return lambda rows, state: function(rows, state, view)
