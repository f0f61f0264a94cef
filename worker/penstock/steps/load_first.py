"""Holds the rows of one input until tables are loaded from the others.

    rows ── until the tables are loaded ──> keyed state ── loaded ──> the inner step, a slice at a time
         ── then, when none waits ─────────────────────────────────> the inner step
    tables ────────────────────────────────────────────────────────> the inner step

A table is loaded when each edge that brings it has reached a time, or its end. The task tells the step how far edges
have come (``on_aside``). A loaded table stays loaded: what is told later does not count. Rows wait in keyed state, so
the channel is read on, barriers pass, and a rescale or a restore needs nothing new. While rows wait, no time passes
that was not heard before them. So they are never late for the steps behind.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from penstock.base.limits import FIRED_ROWS_MAX
from penstock.contract.keygroups import Share
from penstock.model.arrays import Int32s
from penstock.steps.base import NOTHING_DUE, Emit, Locate, PlainStep
from penstock.steps.keyed import KeyColumns, OpenState
from penstock.steps.waiting_rows import BEFORE_ALL, WaitingRows

_LAST = NOTHING_DUE - 1


class InnerStep(Protocol):
    """A step with several inputs, the rows of one of which wait."""

    name: str
    where: Locate

    def open(self, state: OpenState) -> None:
        """Open the state."""
        ...

    def bind(self, outputs: Mapping[str, Emit]) -> None:
        """Store the outputs."""
        ...

    def side(self, name: str) -> Emit:
        """Return what takes the rows of an input."""
        ...

    def on_watermark(self, time_us: int) -> int:
        """Advance event time. Returns the time reached."""
        ...

    def on_groups_gained(self, share: Share, fired_us: int) -> None:
        """Take note that state of key groups was loaded."""
        ...

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return what is kept."""
        ...

    def counters(self) -> dict[str, int]:
        """Return the counters by name."""
        ...


@dataclass(frozen=True, slots=True)
class HeldInput:
    """The input ``side`` of a step. Its rows wait in the state ``state``.

    ``timed``: they have the hidden bound column.
    """

    side: str
    state: str
    keys: KeyColumns
    schema: pa.Schema
    timed: bool


class LoadFirstStep(PlainStep):
    """Emits what the inner step emits. Rows of the held input come when the tables are loaded."""

    def __init__(self, inner: InnerStep, held: HeldInput, until_us: Mapping[int, int]) -> None:
        """Hold rows until each edge of ``until_us`` has reached its time. Without any, no row waits."""
        super().__init__(inner.name)
        self.inner, self._held = inner, held
        self._rows = WaitingRows(held.keys, held.schema, timed=held.timed)
        self._behind = dict(until_us)  # the edges that have not reached their time
        self._heard_us = self._held_us = BEFORE_ALL
        self.waiting = 0

    def open(self, state: OpenState) -> None:
        """Open the states: that of the inner step, and that of the rows that wait."""
        self.inner.open(state)
        self._rows.open(self._held.state, state)

    def bind(self, outputs: Mapping[str, Emit]) -> None:
        """Store the outputs, and let the inner step emit to them."""
        super().bind(outputs)
        self.inner.where = self.where
        self.inner.bind(outputs)
        self._pass = self.inner.side(self._held.side)

    # --- Rows ---------------------------------------------------------------------------------

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Refuse rows: each row belongs to a side."""
        raise AssertionError(f"step {self.name!r} takes rows by side")

    def side(self, name: str) -> Emit:
        """Return what takes the rows of an input."""
        return self._take if name == self._held.side else self.inner.side(name)

    def _take(self, batch: pa.RecordBatch) -> None:
        if not self._behind and not self.waiting:
            self._pass(batch)
            return
        self._rows.add(batch, self._heard_us)
        self._held_us = min(self._held_us, self._heard_us) if self.waiting else self._heard_us
        self.waiting += batch.num_rows

    def on_aside(self, edge: int, time_us: int) -> None:
        """Take note how far an edge has come."""
        if time_us >= self._behind.get(edge, NOTHING_DUE):
            self._behind.pop(edge, None)

    @property
    def ready(self) -> bool:
        """Return whether rows wait that may leave now."""
        return not self._behind and self.waiting > 0

    def release(self) -> None:
        """Give the inner step one slice of the rows that wait, in the order in which they came."""
        if not self.ready:
            return
        found = self._rows.state.take_due(_LAST, FIRED_ROWS_MAX)
        self.waiting -= len(found)
        batch = self._rows.batch(found)
        self._rows.state.delete(found)
        self._pass(batch)

    def on_loaded(self) -> None:
        """Count the rows that wait in state that was loaded."""
        self._count()

    def on_groups_lost(self, share: Share) -> None:
        """Count the rows that wait: those of some key groups belong to another task now."""
        self._count()

    def _count(self) -> None:
        """Count the rows that wait and find the earliest time before them. Loaded ones are in the queue as well."""
        found = self._rows.state.take_due(_LAST, NOTHING_DUE)
        self.waiting = len(found)
        if len(found):
            self._held_us = int(self._rows.held(found).min())
            self._rows.state.set_due(found, self._rows.note_loaded(found))

    # --- Time and contents --------------------------------------------------------------------

    def on_watermark(self, time_us: int) -> int:
        """Tell the inner step the earliest event time that waiting rows may still have. Returns the time reached."""
        self._heard_us = max(self._heard_us, time_us)
        return self.inner.on_watermark(min(time_us, self._held_us) if self.waiting else time_us)

    def on_groups_gained(self, share: Share, fired_us: int) -> None:
        """Tell the inner step."""
        self.inner.on_groups_gained(share, fired_us)

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return what the inner step keeps."""
        return self.inner.contents(rows)

    def counters(self) -> dict[str, int]:
        """Return the counters of the inner step."""
        return self.inner.counters()
