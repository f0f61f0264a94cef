"""Describes steps, edges and stages in a few words. All drawings of a job use these texts."""

from penstock.contract.call_types import WholeCall
from penstock.contract.chosen_rows import Distinct, LatestRow, Top, WindowTop
from penstock.contract.codec import ABSENT, Absent
from penstock.contract.graph import (
    MAIN,
    Aggregate,
    AsOf,
    Call,
    Compute,
    Connect,
    CountWindow,
    Enrich,
    Filter,
    FlatMap,
    Join,
    Lookup,
    Map,
    Parameters,
    Process,
    Session,
    Sink,
    Source,
    Split,
    TimeKind,
    Trigger,
    Window,
    WindowAll,
    WindowParts,
)
from penstock.contract.join_times import signed_text
from penstock.contract.side_inputs import SideTable
from penstock.graph.compiled import CompiledEdge, CompiledStage

_US = ((3_600_000_000, "h"), (60_000_000, "m"), (1_000_000, "s"), (1_000, "ms"), (1, "us"))


def duration_text(us: int) -> str:
    """Write microseconds as a whole number of the largest unit that divides them: 90s, not 1.5m."""
    return next((f"{us // size}{unit}" for size, unit in _US if us and us % size == 0), "0s")


def describe(parameters: Parameters) -> str:
    """Describe in a few words what a step does."""
    match parameters:
        case Source(connector, event_time=time):
            options = _options(connector.options)
            return f"{connector.kind}{options}" + (f", event time {time.column}" if time else "")
        case Sink(connector):
            return f"{connector.kind}{_options(connector.options)}"
        case Split(column, into):
            return f"{column} at spaces into {into}"
        case Map(call) | FlatMap(call) | Filter(call) | Process(call):
            return f"{_name(call)} per {call.per}{_ttl_text(parameters)}"
        case Connect(left, right):
            return f"{_name(left)} and {_name(right)} per record{_ttl_text(parameters)}"
        case Enrich(call, order, capacity, batch=batch):
            rows = "" if batch == 1 else f", {batch} rows each"
            return f"answers of {_name(call)}, {capacity} calls at once{rows}, in the order of {order}"
        case Lookup(connector, columns, on, how):
            added = ", ".join(column.name for column in columns)
            return f"{how} {added} by {', '.join(on)} from {connector.kind}{_options(connector.options)}"
        case Aggregate(compute):
            return _compute_text(compute)
        case Window(size_us, compute, allowed_lateness_us=late) as window:
            slide = "" if window.step_us == size_us else f" every {duration_text(window.step_us)}"
            lateness = f" + {duration_text(late)}" if late else ""
            emits = f"{_clock_text(window.time)}{_trigger_text(window.trigger)}"
            return f"{duration_text(size_us)}{slide}{lateness}{emits}: {_compute_text(compute, window.whole)}"
        case Session(gap_us, compute, late, time, whole):
            times = f"{duration_text(gap_us)}{f' + {duration_text(late)}' if late else ''}{_clock_text(time)}"
            return f"sessions with gap {times}: {_compute_text(compute, whole)}"
        case WindowParts(size_us, compute, step_us=step_us) as parts:
            slide = "" if step_us == parts.size_us else f" every {duration_text(step_us)}"
            return f"parts of {duration_text(size_us)}{slide}: {_compute_text(compute)}"
        case WindowAll(size_us, compute, allowed_lateness_us=late):
            lateness = f" + {duration_text(late)}" if late else ""
            return f"{duration_text(size_us)} of all rows{lateness}: {_compute_text(compute)}"
        case CountWindow(rows, compute):
            return f"every {rows:,} rows: {_compute_text(compute)}"
        case Distinct(within_us):
            return "first row" if within_us is None else f"first row within {duration_text(within_us)}"
        case SideTable(on) as table:
            return f"side table by {', '.join(on)}{_loading(table)}"
        case LatestRow(by):
            return f"latest by {by}"
        case Top(most, by):
            return f"top {most} by {by}"
        case WindowTop(most, by):
            return f"top {most} of each window by {by}"
        case Join() as join:
            return _join_text(join)


def _join_text(join: Join) -> str:
    lateness = f" + {duration_text(join.allowed_lateness_us)}" if join.allowed_lateness_us else ""
    function = "" if join.call is None else f": {_name(join.call)} per {join.call.per}"
    times = _times(join) if join.within_us is None else f"within {duration_text(join.within_us)}"
    return f"{join.how} {times}{lateness}{function}"


def _times(join: Join) -> str:
    if join.as_of is None:
        return f"from {signed_text(join.lower_us or 0)} to {signed_text(join.upper_us or 0)}"
    if join.as_of is AsOf.EVENT:
        return "as of event time"
    return "as of now" if join.load_until is ABSENT else f"as of now, loaded until {join.load_until}"


def _loading(table: SideTable) -> str:
    if table.load_until is not None:
        return f", loaded first until {table.load_until}"
    return ", loaded first" if table.loads_first else ""


def _options(options: dict[str, str | int | float | bool | None]) -> str:
    set_options = {n: v for n, v in options.items() if v}  # None, False and 0 mean "not set"
    return "".join(f" {v}" if n == "path" else f" {n}={v}" for n, v in set_options.items())


def _name(call: Call) -> str:
    return call.function.replace("<locals>.", "")


def _ttl_text(parameters: Parameters) -> str:
    ttl = parameters.ttl if isinstance(parameters, Process | Connect) else ABSENT
    return "" if ttl is ABSENT else f", keys live {duration_text(ttl.after_us)}{_clock_text(ttl.time)}"


def _clock_text(time: TimeKind) -> str:
    return " by the clock" if time is TimeKind.CLOCK else ""


def _trigger_text(trigger: Trigger | None) -> str:
    if trigger is None:
        return ""
    early = "" if trigger.early_us is None else f", early {duration_text(trigger.early_us)} by {trigger.time}"
    return early + (", on late" if trigger.on_late else "")


def _compute_text(compute: tuple[Compute, ...], whole: WholeCall | Absent = ABSENT) -> str:
    if whole is not ABSENT:
        return f"{whole.function.replace('<locals>.', '')} of all rows"
    return ", ".join(
        f"{c.name}={c.function}({c.column or ''})" if c.name != str(c.function) or c.column else c.name for c in compute
    )


def edge_text(edge: CompiledEdge) -> str:
    """Describe how an edge partitions its rows: ``key(word)``, ``forward``, ``custom(hot of even, hot)``."""
    how = str(edge.plan.partitioning)
    keys = f"({', '.join(edge.keys)})" if edge.keys else ""
    if edge.scheme:
        keys = f"({edge.scheme} of {', '.join(edge.functions)})"
    output = "" if edge.output == MAIN else f" {edge.output}"
    side = f" as {edge.side}" if edge.side else ""
    return f"{how}{keys}{output}{side}"


def stage_text(stage: CompiledStage) -> str:
    """Describe a stage: its number, how many tasks it has, and whether it is keyed."""
    parallel = stage.plan.parallelism
    tasks = "one task a worker" if parallel is None else f"{parallel} task{'s' * (parallel != 1)}"
    return f"stage {stage.plan.index}: {tasks}" + (", keyed" if stage.plan.keyed else "")
