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
from penstock.steps.windows.whole import ShapeStep, WholeFunction, WholeStep
from penstock.steps.windows.whole_rows import Extent, WholeRows

AnyWindowStep = ShapeStep | WholeStep


def window(
    name: str,
    shape: WindowShape | SessionShape,
    keys: KeyColumns,
    compute: Sequence[Compute],
    schemas: tuple[pa.Schema, pa.Schema],
    *,
    trigger: Trigger | None = None,
) -> ShapeStep:
    """Make a window step that takes rows of ``schemas[0]`` and emits rows of ``schemas[1]``.

    The caller must open its state before the first batch.
    """
    if trigger is not None:
        assert isinstance(shape, WindowShape), f"step {name!r} was checked: a session has no trigger"
        return PaneStep(name, shape, Aggregates(name, compute, schemas[0]), keys, schemas[1], trigger=trigger)
    return _shaped(name, shape, keys, Aggregates(name, compute, schemas[0], _places(shape)), schemas[1])


def whole_window(
    name: str,
    shape: WindowShape | SessionShape,
    keys: KeyColumns,
    function: WholeFunction,
    schemas: tuple[pa.Schema, pa.Schema, pa.Schema],
) -> WholeStep:
    """Make a window step that takes rows of ``schemas[0]`` and calls ``function`` with rows of ``schemas[1]``.

    It emits rows of ``schemas[2]``. The caller must open its state before the first batch.
    """
    taken, shown, output = schemas
    kept = WholeRows(name, _extent(shape), keys, (taken, shown), _places(shape))
    windows = pa.schema(list(output)[: len(keys.places) + 2])
    return WholeStep(_shaped(name, shape, keys, kept, windows), kept, function, output)


def _shaped(
    name: str, shape: WindowShape | SessionShape, keys: KeyColumns, aggregates: Aggregates, output: pa.Schema
) -> ShapeStep:
    if isinstance(shape, SessionShape):
        return SessionStep(name, shape, aggregates, keys, output)
    kind = WindowStep if shape.step_us == shape.size_us else SlidingStep
    return kind(name, shape, aggregates, keys, output)


def _places(shape: WindowShape | SessionShape) -> int:
    """Return how many accumulators a state row has."""
    if isinstance(shape, SessionShape):
        return session_parts.PLACES
    return 1 if shape.step_us == shape.size_us else places_of(shape)


def _extent(shape: WindowShape | SessionShape) -> Extent:
    """Return where the rows of windows are kept."""
    if isinstance(shape, SessionShape):
        return Extent(shape.gap_us, shape.gap_us, shape.time)
    shared = shape.step_us < shape.size_us
    return Extent(shape.step_us, 1, shape.time, shape.offset_us, shared)
