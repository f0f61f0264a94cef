"""The steps of a stage as one callable: rows in at the entry, out to edges and sinks.

Steps call each other directly; nothing is looked up by name after the start.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from penstock.base.errors import Where
from penstock.contract.graph import MAIN
from penstock.contract.keygroups import Share
from penstock.steps.base import Emit, Step

Reading = Callable[[], tuple[str, str, int] | None]

OUTSIDE, LETTERS = -1, -2  # givers that are no step: the stage's input, a side output


@dataclass(frozen=True, slots=True)
class Wired:
    """A step and where its named outputs go: to steps by their place in the stage, and outside."""

    step: Step
    inner: Mapping[str, tuple[int, ...]]
    outer: Mapping[str, tuple[Emit, ...]]


@dataclass(slots=True)
class Meter:
    """Rows that one step has taken, and emitted to its main output."""

    rows_in: int = 0
    rows_out: int = 0


class Chain:
    """All steps of one task. One thread drives it."""

    def __init__(
        self, wired: Sequence[Wired], entry: Sequence[int], outside: Sequence[Emit]
    ) -> None:
        """Bind every step. Rows enter at the steps ``entry``, and go straight to ``outside``.

        Steps come in topological order: an output goes to later steps only.
        """
        self.steps = tuple(w.step for w in wired)
        self._meters = tuple(Meter() for _ in wired)
        self._givers = [OUTSIDE] * len(wired)  # whose rows a step is taking
        self._reading: Reading = lambda: None
        for place, w in enumerate(wired):
            assert all(t > place for targets in w.inner.values() for t in targets), "not in order"
            w.step.where = partial(self._where, place)
            w.step.bind({name: self._joined(place, w, name) for name in {*w.inner, *w.outer}})
        self._enter = fan_out([*(self._into(i, OUTSIDE) for i in entry), *outside])

    def _joined(self, place: int, wired: Wired, output: str) -> Emit:
        giver = place if output == MAIN else LETTERS
        inner = [self._into(target, giver) for target in wired.inner.get(output, ())]
        behind = fan_out([*inner, *wired.outer.get(output, ())])
        meter = self._meters[place]
        if output != MAIN:
            return behind

        def emit(batch: pa.RecordBatch) -> None:
            meter.rows_out += batch.num_rows
            behind(batch)

        return emit

    def _into(self, place: int, giver: int) -> Emit:
        meter, on_batch, givers = self._meters[place], self.steps[place].on_batch, self._givers

        def take(batch: pa.RecordBatch) -> None:
            givers[place] = giver
            meter.rows_in += batch.num_rows
            on_batch(batch)

        return take

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Let rows through all steps; what comes out has been emitted on return.

        Raises UserCodeError with the step and, when known, the record's place in its source.
        """
        self._enter(batch)

    def read_by(self, reading: Reading) -> None:
        """Learn who can tell source, split and first offset of the batch that has entered."""
        self._reading = reading

    def _where(self, place: int, row: int) -> Where:
        """Follow a row of the batch that a step is taking back to its source."""
        step = self.steps[place].name
        found = self._reading()
        if found is None:
            return Where(step)
        at: int | None = row
        while at is not None and self._givers[place] >= 0:
            place = self._givers[place]
            at = self.steps[place].parent(at)
        if at is None or self._givers[place] == LETTERS:
            return Where(step, found[0], found[1])
        return Where(step, found[0], found[1], found[2] + at)

    def on_watermark(self, time_us: int) -> bool:
        """Let event time pass: steps in order, so that fired rows meet later steps before it.

        Returns true after a slice of what is due: what was emitted may leave before the next one.
        """
        return any(step.on_watermark(time_us) for step in self.steps)

    def on_groups_gained(self, share: Share, watermark_us: int | None) -> None:
        """Tell the steps that state of these groups was loaded by the task."""
        for step in self.steps:
            step.on_groups_gained(share, watermark_us)

    def counters(self) -> dict[str, dict[str, int]]:
        """Return by step what it has counted, with ``rows_in`` and ``rows_out`` (of ``main``)."""
        return {
            step.name: {"rows_in": m.rows_in, "rows_out": m.rows_out, **step.counters()}
            for step, m in zip(self.steps, self._meters, strict=True)
        }


def fan_out(emits: Sequence[Emit]) -> Emit:
    """Make one callable of several; rows are shared, never copied."""
    if len(emits) == 1:
        return emits[0]
    several = tuple(emits)

    def emit(batch: pa.RecordBatch) -> None:
        for each in several:
            each(batch)

    return emit
