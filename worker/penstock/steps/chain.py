"""Joins the steps of a stage into one callable. Rows enter it, and leave to edges and sinks.

Steps call each other directly. Nothing is looked up by name after the start.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import pyarrow as pa

from penstock.base.errors import Where
from penstock.contract.graph import MAIN
from penstock.contract.keygroups import Share
from penstock.contract.manifest import CopyDigest
from penstock.steps.base import NOTHING_DUE, Emit, OutstandingRows, SheddingStep, SidedStep, Step, StoppingStep
from penstock.steps.enrich.async_calls import AskingStep, AsyncCalls
from penstock.steps.load_first import LoadFirstStep
from penstock.steps.lookup.lookup_step import LookupStep
from penstock.steps.lookup.table_calls import TableWait
from penstock.steps.processing_time import ClockedStep
from penstock.steps.side_copies import CopyingStep

Reading = Callable[[], tuple[str, str, int] | None]

NO_SIDES: Mapping[int, str] = MappingProxyType({})
STAGE_INPUT, SIDE_OUTPUT = -1, -2  # senders that are not the main output of a step


@dataclass(frozen=True, slots=True)
class WiredStep:
    """A step and the receivers of its named outputs.

    ``inner`` has the receiving steps by their position in the stage, ``outer`` edges and sinks.
    """

    step: Step
    inner: Mapping[str, tuple[int, ...]]
    outer: Mapping[str, tuple[Emit, ...]]


@dataclass(slots=True)
class Meter:
    """The number of rows that a step has taken, and has emitted to its main output."""

    rows_in: int = 0
    rows_out: int = 0


class Chain:
    """All steps of one task. Only one thread may call it."""

    def __init__(
        self,
        wired: Sequence[WiredStep],
        entry: Sequence[int],
        outside: Sequence[Emit],
        sides: Mapping[int, str] = NO_SIDES,
    ) -> None:
        """Bind every step.

        Input rows go to the steps at positions ``entry`` and to the receivers ``outside``. Steps
        are in topological order: an output goes only to later steps. ``sides`` has the side of each
        edge into the first step, by the index of the edge, if that step has several sides.
        """
        self.steps = tuple(w.step for w in wired)
        self._asking = tuple(step for step in self.steps if isinstance(step, AskingStep))
        self._loading = tuple(step for step in self.steps if isinstance(step, LoadFirstStep))
        self._waiting: tuple[AskingStep | LoadFirstStep, ...] = (*self._asking, *self._loading)
        parts = (*self.steps, *(step.inner for step in self._loading))
        self._copies = tuple(copy for step in parts if isinstance(step, CopyingStep) for copy in step.copies.values())
        self._meters = tuple(Meter() for _ in wired)
        self._clocked = tuple(step for step in parts if isinstance(step, ClockedStep))
        self._senders = [STAGE_INPUT] * len(wired)  # for each step: the sender of its current batch
        self._reading: Reading = lambda: None
        for place, w in enumerate(wired):
            assert all(t > place for targets in w.inner.values() for t in targets), "not in order"
            w.step.where = partial(self._where, place)
            w.step.bind({name: self._output(place, w, name) for name in {*w.inner, *w.outer}})
        self._enter = fan_out([*(self._receiver(i, STAGE_INPUT) for i in entry), *outside])
        self._entries = {edge: self._receiver(0, STAGE_INPUT, side) for edge, side in sides.items()}

    def _output(self, place: int, wired: WiredStep, output: str) -> Emit:
        sender = place if output == MAIN else SIDE_OUTPUT
        inner = [self._receiver(target, sender) for target in wired.inner.get(output, ())]
        receivers = fan_out([*inner, *wired.outer.get(output, ())])
        meter = self._meters[place]
        if output != MAIN:
            return receivers

        def emit(batch: pa.RecordBatch) -> None:
            meter.rows_out += batch.num_rows
            receivers(batch)

        return emit

    def _receiver(self, place: int, sender: int, side: str | None = None) -> Emit:
        meter, step, senders = self._meters[place], self.steps[place], self._senders
        on_batch = step.on_batch if side is None else _side(step, side)

        def take(batch: pa.RecordBatch) -> None:
            senders[place] = sender
            meter.rows_in += batch.num_rows
            on_batch(batch)

        return take

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Run a batch through all steps. All results have been emitted when this returns.

        Raises UserCodeError with the step and, if it is known, the place of the row in its source.
        """
        self._enter(batch)

    def entry(self, edge: int) -> Emit:
        """Return what takes the batches of an edge: :meth:`on_batch`, or one side of the first step."""
        return self._entries.get(edge, self._enter)

    def read_by(self, reading: Reading) -> None:
        """Set the function that returns source, split and first offset of the current batch."""
        self._reading = reading

    def _where(self, place: int, row: int) -> Where:
        """Find the place, in its source, of a row of the batch that a step is processing."""
        step = self.steps[place].name
        found = self._reading()
        if found is None:
            return Where(step)
        at: int | None = row
        while at is not None and self._senders[place] >= 0:
            place = self._senders[place]
            at = self.steps[place].parent(at)
        if at is None or self._senders[place] == SIDE_OUTPUT:
            return Where(step, found[0], found[1])
        return Where(step, found[0], found[1], found[2] + at)

    def on_watermark(self, time_us: int) -> int:
        """Advance event time in the steps, in order. Each fires at most one slice of rows.

        A step is told the time that the step before it has reached, so the rows of that step are never late. Returns
        the time that all have reached. If it is less than ``time_us``, the caller sends the rows and calls again.
        """
        for step in self.steps:
            time_us = step.on_watermark(time_us)
        return time_us

    def follow_clock(self, wall_us: Callable[[], int]) -> None:
        """Let the steps follow a clock that gives microseconds since 1970. Called once, before rows come."""
        for step in self._clocked:
            step.clock.follow(wall_us)

    def ticks_in_s(self) -> float | None:
        """Return in how many seconds something is due by the clock; 0 or less: now. None if nothing is."""
        waits = [tick - step.clock.now_us() for step in self._clocked if (tick := step.next_tick()) != NOTHING_DUE]
        return min(waits) / 1e6 if waits else None

    def on_clock(self) -> None:
        """Let each step fire one slice of what is due by the clock."""
        for step in self._clocked:
            step.on_clock()

    def on_groups_gained(self, share: Share, fired_us: int) -> None:
        """Tell all steps that the task has loaded state of these key groups: see :class:`Step`."""
        for step in self.steps:
            step.on_groups_gained(share, fired_us)

    def ask_through(self, calls: AsyncCalls) -> None:
        """Let the steps make asynchronous calls. Called once, before rows come."""
        for step in self._asking:
            step.ask_through(calls)

    def shed_by(self, outstanding: OutstandingRows) -> None:
        """Let the steps ask how many rows are outstanding. Called once, before rows come."""
        for step in self.steps:
            if isinstance(step, SheddingStep):
                step.shed_by(outstanding)

    @property
    def waiting(self) -> bool:
        """Return whether rows of a step wait for answers, or until a table is loaded."""
        return any(step.waiting for step in self._waiting)

    @property
    def ready(self) -> bool:
        """Return whether rows of a step may leave that have waited until a table was loaded."""
        return any(step.ready for step in self._loading)

    @property
    def asks(self) -> bool:
        """Return whether a step waits for answers to its rows."""
        return bool(self._asking)

    @property
    def full(self) -> bool:
        """Return whether a step should get no more rows before answers come."""
        return any(step.full for step in self._asking)

    def on_loaded(self) -> None:
        """Tell the steps that the task has loaded state."""
        for step in self._waiting:
            step.on_loaded()
        for copy in self._copies:
            copy.on_loaded()

    def digests(self) -> tuple[CopyDigest, ...]:
        """Return what the copies of side tables have."""
        return tuple(copy.digest() for copy in self._copies)

    def on_groups_lost(self, share: Share) -> None:
        """Tell the steps that key groups belong to another task now."""
        for step in self._waiting:
            step.on_groups_lost(share)

    def on_aside(self, edge: int, time_us: int) -> None:
        """Tell the steps how far an edge has come that does not hold the task's time back."""
        for step in self._loading:
            step.on_aside(edge, time_us)

    def on_answers(self) -> None:
        """Let the steps take the answers that have come, and rows leave that need not wait any more: one slice."""
        for step in self._asking:
            step.on_answers()
        for loading in self._loading:
            loading.release()

    def stop(self) -> None:
        """Let the steps release what they hold, in order. Nothing else may be called any more."""
        for step in self.steps:
            if isinstance(step, StoppingStep):
                step.stop()

    def waits(self) -> dict[str, TableWait]:
        """Return the steps whose tables do not answer, and why. From any thread."""
        lookups = (step for step in self.steps if isinstance(step, LookupStep))
        return {step.name: step.waits for step in lookups if step.waits is not None}

    def counters(self) -> dict[str, dict[str, int]]:
        """Return the counters of each step, with ``rows_in`` and ``rows_out`` (main output only)."""
        return {
            step.name: {"rows_in": m.rows_in, "rows_out": m.rows_out, **step.counters()}
            for step, m in zip(self.steps, self._meters, strict=True)
        }


def _side(step: Step, side: str) -> Emit:
    assert isinstance(step, SidedStep), f"step {step.name!r} has one input"
    return step.side(side)


def fan_out(emits: Sequence[Emit]) -> Emit:
    """Return one callable that calls several. They share the batch; it is not copied."""
    if len(emits) == 1:
        return emits[0]
    several = tuple(emits)

    def emit(batch: pa.RecordBatch) -> None:
        for each in several:
            each(batch)

    return emit
