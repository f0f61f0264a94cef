"""The simulated jobs: plans, seeded input, and tiny steps over state in dicts.

A record is ``(key, split, offset, ts)``. These jobs cover what the protocols must keep exact:

    count    source -> keyed running count with a sink
    window   source -> relay -> keyed tumbling window with a sink and a late output
    cascade  the same, whose windows go to a keyed window of three times the length: rows that a watermark makes
    diamond  source -> x -> join, source -> y -> join: one barrier through two paths
    interval left source, right source -> keyed interval join with a sink and a late output
    timer    source -> relay -> keyed timers, whose rows go to a keyed tally with a sink
    sliding  source -> relay -> keyed sliding windows with a sink and a late output
    session  the same with sessions
    count-dealt  source -> deal, by one of two schemes -> the same count
    pair     source -> half, source -> all: two keyed counters of unlike states. The same job is
             also there with them the other way round, with a stateless stage more, and with a
             third counter, which counts nothing

A step is a pure function from (state of the key, record) to (new state, rows), so that the
oracle can run the very same input through a reference of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import NamedTuple

from penstock.base.values import replace
from penstock.contract.ids import SplitId, StageIndex
from penstock.contract.plan import SINK, EdgePlan, Partitioning, PhysicalPlan, StagePlan, StepState
from penstock.contract.schemes import SchemeNames

WINDOW_US = 100
LATENESS_US = 20
LONG_WINDOW_US = 300  # of the second window of a cascade
OUT_OF_ORDER_US = 30
COUNTERS = ("half", "all")
TABLE = "sim-table"  # kind of a sink with one commit for each epoch
EVENT_TIMED = ("window", "cascade", "interval", "timer", "sliding", "session")  # jobs
SCHEMES = ("even", "turned")  # of the job count-dealt
LONG = 1  # stands in the keys of long windows, which are apart from those of the short ones


class SimRecord(NamedTuple):
    """One input row. ``bound`` is its split's event-time bound as the source stamps it."""

    key: int
    split: SplitId
    offset: int
    ts: int
    bound: int
    branch: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of one run's input, drawn from the workload stream, and the cost of its rows.

    A call of a keyed step takes ``call_us`` and ``row_us`` for each row. ``skew`` is the share of the records that
    have only keys of the lower half of the key groups.
    """

    splits: int = 4
    records: int = 60
    keys: int = 6
    groups: int = 8
    batch: int = 4
    row_us: int = 0
    call_us: int = 0
    skew: float = 0.0


@dataclass(frozen=True, slots=True)
class SimJob:
    """A plan, the step of each stage (by stage index), and the whole input."""

    name: str
    plan: PhysicalPlan
    steps: tuple[str, ...]
    shape: Shape
    input: dict[SplitId, tuple[SimRecord, ...]]

    def splits_by_stage(self) -> dict[StageIndex, tuple[SplitId, ...]]:
        """Return the splits of each source. They are dealt out in turn."""
        sources = [stage.index for stage in self.plan.stages if stage.source is not None]
        return {stage: tuple(self.input)[number :: len(sources)] for number, stage in enumerate(sources)}

    def stage_step(self, stage: StageIndex) -> str:
        """Return the name of the step that a stage runs."""
        return self.steps[stage]


def group_of(key: int, groups: int) -> int:
    """Map a key to its key group. The mapping is fixed and does not use Python's salted hash."""
    return (key * 2_654_435_761 >> 7) % groups


def dealt_to(scheme: str, key: int, tasks: int) -> int:
    """Return the number of the task to which a scheme deals the records of a key."""
    return (key + SCHEMES.index(scheme)) % tasks


def make_input(shape: Shape, draw: Random) -> dict[SplitId, tuple[SimRecord, ...]]:
    """Draw the records of all splits. Times rise in a split, out of order by a bound or more."""
    return {SplitId(f"s{i}"): _make_split(SplitId(f"s{i}"), shape, draw) for i in range(shape.splits)}


def _make_split(split: SplitId, shape: Shape, draw: Random) -> tuple[SimRecord, ...]:
    records: list[SimRecord] = []
    time, largest = 0, 0
    count = draw.randint(shape.records // 2, shape.records)
    for offset in range(count):
        time += draw.randint(0, 12)
        ts = max(0, time - (draw.randint(0, 90) if draw.random() < 0.2 else 0))
        # The bound is judged by the earlier rows of the split, so it does not depend on batches.
        records.append(SimRecord(_draw_key(shape, draw), split, offset, ts, largest - OUT_OF_ORDER_US))
        largest = max(largest, ts)
    return tuple(records)


def _draw_key(shape: Shape, draw: Random) -> int:
    if shape.skew and draw.random() < shape.skew:
        return draw.choice([key for key in range(shape.keys) if group_of(key, shape.groups) < shape.groups // 2])
    return draw.randrange(shape.keys)


def make_job(name: str, shape: Shape, draw: Random) -> SimJob:
    """Build one of the jobs with seeded input. Raises KeyError on another name."""
    plan, steps = make_plan(name, shape)
    return SimJob(name.split("-", maxsplit=1)[0], plan, steps, shape, make_input(shape, draw))


def make_plan(name: str, shape: Shape) -> tuple[PhysicalPlan, tuple[str, ...]]:
    """Return the plan of a job and the step of each stage. Raises KeyError on another name."""
    return _PLANS[name](shape)


def _stage(index: int, name: str, **more: object) -> StagePlan:
    return StagePlan(StageIndex(index), name, (name,), **more)  # type: ignore[arg-type]


def _edge(index: int, sender: int, receiver: int, how: Partitioning) -> EdgePlan:
    return EdgePlan(index, StageIndex(sender), StageIndex(receiver), how)


def _plan(name: str, shape: Shape, stages: tuple[StagePlan, ...], edges: tuple[EdgePlan, ...]) -> PhysicalPlan:
    states = [StepState(s.name, "source", "sim") for s in stages if s.source is not None]
    states += [StepState(s.name, "process") for s in stages if s.keyed]
    states += [StepState(sink, "sink", "sim") for s in stages for sink in s.sinks]
    return PhysicalPlan(name, shape.groups, stages, edges, f"{name}-1", tuple(states))


def _count_plan(shape: Shape) -> tuple[PhysicalPlan, tuple[str, ...]]:
    stages = (
        _stage(0, "read", source="read", bounded=True),
        _stage(1, "count", keyed=True, sinks=("out",)),
    )
    edges = (_edge(0, 0, 1, Partitioning.KEY),)
    return _plan("count", shape, stages, edges), ("read", "count")


def _fixed_plan(shape: Shape) -> tuple[PhysicalPlan, tuple[str, ...]]:
    """Build a count with a fixed number of tasks. A rescale assigns them to workers again."""
    stages = (
        _stage(0, "read", source="read", bounded=True, parallelism=4),
        _stage(1, "count", keyed=True, sinks=("out",), parallelism=3),
    )
    edges = (_edge(0, 0, 1, Partitioning.KEY),)
    return _plan("count", shape, stages, edges), ("read", "count")


def _table_plan(shape: Shape) -> tuple[PhysicalPlan, tuple[str, ...]]:
    """Build a count whose output is a table."""
    plan, steps = _count_plan(shape)
    return replace(plan, states=tuple(replace(s, connector=TABLE) if s.kind == SINK else s for s in plan.states)), steps


def _dealt_plan(shape: Shape) -> tuple[PhysicalPlan, tuple[str, ...]]:
    stages = (
        _stage(0, "read", source="read", bounded=True),
        _stage(1, "deal", schemes=SchemeNames(SCHEMES, SCHEMES[0])),
        _stage(2, "count", keyed=True, sinks=("out",)),
    )
    edges = (_edge(0, 0, 1, Partitioning.CUSTOM), _edge(1, 1, 2, Partitioning.KEY))
    return _plan("count", shape, stages, edges), ("read", "deal", "count")


def _cascade_plan(shape: Shape) -> tuple[PhysicalPlan, tuple[str, ...]]:
    stages = (
        _stage(0, "read", source="read", bounded=True),
        _stage(1, "pass"),
        _stage(2, "window", keyed=True, sinks=("late",)),
        _stage(3, "long", keyed=True, sinks=("out",)),
    )
    edges = (
        _edge(0, 0, 1, Partitioning.FORWARD),
        _edge(1, 1, 2, Partitioning.KEY),
        _edge(2, 2, 3, Partitioning.KEY),
    )
    return _plan("cascade", shape, stages, edges), ("read", "pass", "window", "long")


def _diamond_plan(shape: Shape) -> tuple[PhysicalPlan, tuple[str, ...]]:
    stages = (
        _stage(0, "read", source="read", bounded=True),
        _stage(1, "x"),
        _stage(2, "y"),
        _stage(3, "join", keyed=True, sinks=("out",)),
    )
    edges = (
        _edge(0, 0, 1, Partitioning.FORWARD),
        _edge(1, 0, 2, Partitioning.FORWARD),
        _edge(2, 1, 3, Partitioning.KEY),
        _edge(3, 2, 3, Partitioning.KEY),
    )
    return _plan("diamond", shape, stages, edges), ("read", "x", "y", "join")


def _interval_plan(shape: Shape) -> tuple[PhysicalPlan, tuple[str, ...]]:
    stages = (
        _stage(0, "left", source="left", bounded=True),
        _stage(1, "right", source="right", bounded=True),
        _stage(2, "interval", keyed=True, sinks=("out", "late")),
    )
    edges = (_edge(0, 0, 2, Partitioning.KEY), _edge(1, 1, 2, Partitioning.KEY))
    return _plan("interval", shape, stages, edges), ("read", "read", "interval")


def _timer_plan(shape: Shape) -> tuple[PhysicalPlan, tuple[str, ...]]:
    stages = (
        _stage(0, "read", source="read", bounded=True),
        _stage(1, "pass"),
        _stage(2, "timer", keyed=True),
        _stage(3, "tally", keyed=True, sinks=("out",)),
    )
    edges = (
        _edge(0, 0, 1, Partitioning.FORWARD),
        _edge(1, 1, 2, Partitioning.KEY),
        _edge(2, 2, 3, Partitioning.KEY),
    )
    return _plan("timer", shape, stages, edges), ("read", "pass", "timer", "tally")


def _firing_plan(step: str, shape: Shape) -> tuple[PhysicalPlan, tuple[str, ...]]:
    stages = (
        _stage(0, "read", source="read", bounded=True),
        _stage(1, "pass"),
        _stage(2, step, keyed=True, sinks=("out", "late")),
    )
    edges = (_edge(0, 0, 1, Partitioning.FORWARD), _edge(1, 1, 2, Partitioning.KEY))
    return _plan(step, shape, stages, edges), ("read", "pass", step)


def _pair_plan(shape: Shape) -> tuple[PhysicalPlan, tuple[str, ...]]:
    return _counters("pair", shape, ("read", "half", "all"))


def _swapped_plan(shape: Shape) -> tuple[PhysicalPlan, tuple[str, ...]]:
    return _counters("pair-swapped", shape, ("read", "all", "half"))


def _longer_plan(shape: Shape) -> tuple[PhysicalPlan, tuple[str, ...]]:
    return _counters("pair-longer", shape, ("read", "pass", "half", "all"))


def _more_plan(shape: Shape) -> tuple[PhysicalPlan, tuple[str, ...]]:
    return _counters("pair-more", shape, ("read", "idle", "half", "all"))


def _counters(name: str, shape: Shape, steps: tuple[str, ...]) -> tuple[PhysicalPlan, tuple[str, ...]]:
    """Build a pair. ``pass`` stands before the counter that follows it."""
    edges: list[EdgePlan] = []
    stages = [_stage(0, "read", source="read", bounded=True)]
    for index, step in enumerate(steps[1:], start=1):
        behind = steps[index - 1] == "pass"
        how = Partitioning.FORWARD if step == "pass" else Partitioning.KEY
        edges.append(_edge(len(edges), index - 1 if behind else 0, index, how))
        keyed = step != "pass"
        stages.append(_stage(index, step, keyed=keyed, sinks=(f"{step}s",) if keyed else ()))
    return _plan(name, shape, tuple(stages), tuple(edges)), steps


_PLANS: dict[str, Callable[[Shape], tuple[PhysicalPlan, tuple[str, ...]]]] = {
    "count": _count_plan,
    "count-fixed": _fixed_plan,
    "count-table": _table_plan,
    "count-dealt": _dealt_plan,
    "window": partial(_firing_plan, "window"),
    "cascade": _cascade_plan,
    "diamond": _diamond_plan,
    "interval": _interval_plan,
    "timer": _timer_plan,
    "sliding": partial(_firing_plan, "sliding"),
    "session": partial(_firing_plan, "session"),
    "pair": _pair_plan,
    "pair-swapped": _swapped_plan,
    "pair-longer": _longer_plan,
    "pair-more": _more_plan,
}


# --- Steps

State = dict[tuple[int, ...], tuple[int, ...]]  # (key, ...) -> value
Row = tuple[str, tuple[object, ...]]  # (sink, row)


def count_row(state: State, record: SimRecord) -> tuple[tuple[int, ...], tuple[int, ...], list[Row]]:
    """Count a record under its key. The row has the count and the origin of the record."""
    key = (record.key,)
    count = state.get(key, (0,))[0] + 1
    return key, (count,), [("out", (record.key, count, record.split, record.offset))]


def join_row(state: State, record: SimRecord) -> tuple[tuple[int, ...], tuple[int, ...], list[Row]]:
    """Count the records of a key separately for the two branches."""
    key = (record.key,)
    x, y = state.get(key, (0, 0))
    x, y = (x + 1, y) if record.branch == "x" else (x, y + 1)
    count = x if record.branch == "x" else y
    row = (record.key, record.branch, count, record.split, record.offset)
    return key, (x, y), [("out", row)]


def counts_half(record: SimRecord) -> bool:
    """Return whether the counter ``half`` counts a record."""
    return record.offset % 2 == 0


def pair_row(state: State, record: SimRecord, step: str) -> tuple[tuple[int, ...], tuple[int, ...], list[Row]]:
    """Count a record under its key and the counter's own number, which no other counter reads."""
    key = (record.key, COUNTERS.index(step))
    count = state.get(key, (0,))[0] + 1
    row = (record.key, step, count, record.split, record.offset)
    return key, (count,), [(f"{step}s", row)]


def window_end(ts: int) -> int:
    """Return the end (exclusive) of the tumbling window that holds an event time."""
    return ts - ts % WINDOW_US + WINDOW_US


def fires_at(end: int) -> int:
    """Return the watermark at which the window that ends at ``end`` emits. Its row has the time just before it."""
    return end + LATENESS_US


def long_end(ts: int) -> int:
    """Return the end of the long window of a cascade that holds an event time."""
    return ts - ts % LONG_WINDOW_US + LONG_WINDOW_US


def long_fires(end: int, watermark: int | None) -> bool:
    """Return whether the long window that ends at ``end`` has emitted under a watermark."""
    return watermark is not None and end <= watermark


def is_late(record: SimRecord) -> bool:
    """Return whether a record is late by its own stamp, which is the same in every interleaving."""
    return window_end(record.ts) + LATENESS_US <= record.bound


def fires(end: int, watermark: int | None) -> bool:
    """Return whether the window that ends at ``end`` has emitted under a watermark."""
    return watermark is not None and fires_at(end) <= watermark
