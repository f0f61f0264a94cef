"""The steps of a stage as one callable: rows in at the entry, out to edges and sinks.

Steps call each other directly; nothing is looked up by name after the start.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.contract.keygroups import Share
from penstock.steps.base import Emit, Step


@dataclass(frozen=True, slots=True)
class Wired:
    """A step and where its named outputs go: to steps by their place in the stage, and outside."""

    step: Step
    inner: Mapping[str, tuple[int, ...]]
    outer: Mapping[str, tuple[Emit, ...]]


class Chain:
    """All steps of one task. One thread drives it."""

    def __init__(
        self, wired: Sequence[Wired], entry: Sequence[int], outside: Sequence[Emit]
    ) -> None:
        """Bind every step. Rows enter at the steps ``entry``, and go straight to ``outside``.

        Steps come in topological order: an output goes to later steps only.
        """
        self.steps = tuple(w.step for w in wired)
        for place, w in enumerate(wired):
            assert all(t > place for targets in w.inner.values() for t in targets), "not in order"
            w.step.bind({name: self._joined(w, name) for name in {*w.inner, *w.outer}})
        self._enter = fan_out([*(self.steps[i].on_batch for i in entry), *outside])

    def _joined(self, wired: Wired, output: str) -> Emit:
        inner = [self.steps[target].on_batch for target in wired.inner.get(output, ())]
        return fan_out([*inner, *wired.outer.get(output, ())])

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Let rows through all steps; what comes out has been emitted on return.

        Raises UserCodeError with the step and, when known, the row within its batch.
        """
        self._enter(batch)

    def on_watermark(self, time_us: int) -> None:
        """Let event time pass: steps in order, so that fired rows meet later steps before it."""
        for step in self.steps:
            step.on_watermark(time_us)

    def on_groups_gained(self, share: Share, watermark_us: int | None) -> None:
        """Tell the steps that state of these groups was loaded by the task."""
        for step in self.steps:
            step.on_groups_gained(share, watermark_us)

    def counters(self) -> dict[str, dict[str, int]]:
        """Return what each step has counted, by the names of steps that count."""
        found = {step.name: step.counters() for step in self.steps}
        return {name: counts for name, counts in found.items() if counts}


def fan_out(emits: Sequence[Emit]) -> Emit:
    """Make one callable of several; rows are shared, never copied."""
    if len(emits) == 1:
        return emits[0]
    several = tuple(emits)

    def emit(batch: pa.RecordBatch) -> None:
        for each in several:
            each(batch)

    return emit
