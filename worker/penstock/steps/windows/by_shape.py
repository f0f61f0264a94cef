"""Makes the step for a shape of windows."""

from collections.abc import Sequence

import pyarrow as pa

from penstock.contract.graph import Compute, Trigger
from penstock.model.kernels import session_parts
from penstock.steps.keyed import Aggregates, KeyColumns
from penstock.steps.windows.late_rows import WindowShape
from penstock.steps.windows.panes import PaneStep
from penstock.steps.windows.sessions import SessionShape, SessionStep
from penstock.steps.windows.sliding import SlidingStep, places_of
from penstock.steps.windows.tumbling import WindowStep

AnyWindowStep = WindowStep | SlidingStep | SessionStep


def window(
    name: str,
    shape: WindowShape | SessionShape,
    keys: KeyColumns,
    compute: Sequence[Compute],
    schemas: tuple[pa.Schema, pa.Schema],
    *,
    trigger: Trigger | None = None,
) -> AnyWindowStep:
    """Make a window step that takes rows of ``schemas[0]`` and emits rows of ``schemas[1]``.

    The caller must open its state before the first batch.
    """
    if isinstance(shape, SessionShape):
        return SessionStep(name, shape, Aggregates(name, compute, schemas[0], session_parts.PLACES), keys, schemas[1])
    if trigger is not None:
        return PaneStep(name, shape, Aggregates(name, compute, schemas[0]), keys, schemas[1], trigger=trigger)
    if shape.step_us == shape.size_us:
        return WindowStep(name, shape, Aggregates(name, compute, schemas[0]), keys, schemas[1])
    aggregates = Aggregates(name, compute, schemas[0], places_of(shape))
    return SlidingStep(name, shape, aggregates, keys, schemas[1])
