"""Lists what checkpoints store for each step of a graph. Needs only names and columns, no Arrow."""

from penstock.base.limits import JOIN_BUCKET_US_MIN, JOIN_TABLE_BUCKET_US
from penstock.base.values import replace
from penstock.contract.call_types import CallTypes, StateFields
from penstock.contract.chosen_rows import Distinct, LatestRow, Top, WindowTop
from penstock.contract.codec import ABSENT
from penstock.contract.columns import Column, Columns, find
from penstock.contract.graph import (
    MAIN,
    Aggregate,
    AsOf,
    Call,
    Compute,
    Connect,
    CountWindow,
    Enrich,
    Join,
    LogicalGraph,
    Lookup,
    Process,
    Session,
    Sink,
    Source,
    Step,
    TimeKind,
    Window,
    WindowAll,
)
from penstock.contract.plan import StateColumn, StepState
from penstock.contract.side_inputs import SideTable
from penstock.contract.window_parts import merged_of
from penstock.graph.flow import Flows, input_flow

UNKNOWN = "?"  # the type of a column that is not declared and was not looked for


def states_of(graph: LogicalGraph, flows: Flows) -> tuple[StepState, ...]:
    """List what is stored for sources, sinks and keyed steps, in the order of the graph."""
    found = (_state_of(step, flows) for step in graph.steps)
    return tuple(state for state in found if state is not None)


def key_columns(step: Step, flows: Flows) -> Columns:
    """Return the key columns of a step with their types."""
    columns = input_flow(step, flows).columns or ()
    return tuple(find(columns, k) or Column(k, UNKNOWN) for k in step.keys)


def _state_of(step: Step, flows: Flows) -> StepState | None:
    match step.parameters:
        case Source(connector) | Sink(connector):
            return StepState(step.name, step.kind, connector.kind)
        case Aggregate(compute):
            return _keyed(step, flows, _computed(step, compute, flows))
        case Window(size_us, compute, offset_us) as window:
            slide = () if window.step_us == size_us else (window.step_us,)
            panes = () if window.trigger is None else (StateColumn("pane", "int64", "panes"),)
            columns = (*_kept_by_windows(step, compute, flows), *panes, *_clock(window.time))
            return _keyed(step, flows, columns, (size_us, offset_us, *slide))
        case Session(gap_us, compute, time=time):
            return _keyed(step, flows, (*_kept_by_windows(step, compute, flows), *_clock(time)), (gap_us,))
        case WindowAll(size_us, compute, offset_us, slide_us=slide_us):
            parts = input_flow(step, flows).columns or ()
            merged = (StateColumn(c.name, _type(parts, c.name), str(c.function)) for c in merged_of(compute))
            return _keyed(step, flows, tuple(merged), (size_us, offset_us, slide_us or size_us))
        case CountWindow(rows, compute):
            filled = StateColumn("filled", "int64", f"rows up to {rows:,}")
            return _keyed(step, flows, (*_computed(step, compute, flows), filled))
        case Join(None, lower_us=int(lower), upper_us=int(upper)):
            return _keyed(step, flows, _joined(step, flows), (lower, upper, JOIN_BUCKET_US_MIN))
        case Join(as_of=AsOf.NOW):
            return _keyed(step, flows, _joined(step, flows), ())
        case Join(as_of=AsOf.EVENT):
            return _keyed(step, flows, _joined(step, flows), (JOIN_TABLE_BUCKET_US,))
        case Join(within_us, offset_us=offset_us):
            return _keyed(step, flows, _joined(step, flows), (within_us or 0, offset_us))
        case Distinct():
            return _keyed(step, flows, ())
        case Enrich() | Lookup():
            return _keyed(step, flows, _rows(step, flows))
        case SideTable(on):
            columns = input_flow(step, flows).columns or ()
            keys = tuple(find(columns, k) or Column(k, UNKNOWN) for k in on)
            others = tuple(StateColumn(c.name, c.type, "row") for c in columns if c.name not in on)
            return StepState(step.name, step.kind, keys=keys, columns=others)
        case LatestRow(by):
            return _keyed(step, flows, _ranked(step, flows, f"latest({by})"))
        case Top(most, by) | WindowTop(most, by):
            return _keyed(step, flows, _ranked(step, flows, f"top {most}({by})"))
        case Process(Call(types=CallTypes(state=StateFields() as state, earlier=earlier))) | Connect(
            Call(types=CallTypes(state=StateFields() as state, earlier=earlier))
        ):
            kept = _keyed(step, flows, _fields(state))
            return kept if earlier is ABSENT else replace(kept, migrates=_fields(earlier))
        case Process(state=state):
            return _keyed(step, flows, tuple(StateColumn(c.name, c.type) for c in state))
        case _:
            return None


def _fields(state: StateFields) -> tuple[StateColumn, ...]:
    return tuple(StateColumn(f.name, f.type, number=n, renamed=f.renamed) for n, f in enumerate(state.fields, 1))


def _keyed(step: Step, flows: Flows, columns: tuple[StateColumn, ...], times: tuple[int, ...] = ()) -> StepState:
    keys = key_columns(step, flows)
    return StepState(step.name, step.kind, keys=keys, columns=columns, times=times)


def _computed(step: Step, compute: tuple[Compute, ...], flows: Flows) -> tuple[StateColumn, ...]:
    outputs, inputs = flows[step.name, MAIN].columns or (), input_flow(step, flows).columns or ()
    return tuple(StateColumn(c.name, _type(outputs, c.name), _text(c, inputs)) for c in compute)


def _kept_by_windows(step: Step, compute: tuple[Compute, ...], flows: Flows) -> tuple[StateColumn, ...]:
    """List the computed columns; where a function sees all rows, the columns of these."""
    return _computed(step, compute, flows) or _rows(step, flows)


def _rows(step: Step, flows: Flows) -> tuple[StateColumn, ...]:
    return tuple(StateColumn(c.name, c.type, "row") for c in input_flow(step, flows).columns or ())


def _clock(time: TimeKind) -> tuple[StateColumn, ...]:
    """Tell windows by the clock from those of event time: neither takes over the state of the other."""
    return (StateColumn("time", "timestamp[us]", "the clock"),) if time is TimeKind.CLOCK else ()


def _joined(step: Step, flows: Flows) -> tuple[StateColumn, ...]:
    """List the columns of both sides that are kept: those that are no key columns."""
    return tuple(
        StateColumn(c.name, c.type, side)
        for side in step.sides
        for c in input_flow(step, flows, side).columns or ()
        if c.name not in step.keys_of(side)
    )


def _ranked(step: Step, flows: Flows, of: str) -> tuple[StateColumn, ...]:
    """List the columns of rows that are kept as bytes: those that are no key columns."""
    columns = input_flow(step, flows).columns or ()
    return tuple(StateColumn(c.name, c.type, of) for c in columns if c.name not in step.keys)


def _text(compute: Compute, inputs: Columns) -> str:
    if compute.column is None:
        return str(compute.function)
    return f"{compute.function}({compute.column}: {_type(inputs, compute.column)})"


def _type(columns: Columns, name: str) -> str:
    column = find(columns, name)
    return UNKNOWN if column is None else column.type
