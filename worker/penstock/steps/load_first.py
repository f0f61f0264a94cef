"""Holds the rows of one input until a table is loaded from the other one.

    rows ── until the table is loaded ──> keyed state ── loaded ──> the inner step, a slice at a time
         ── then, when none waits ──────────────────────────────> the inner step
    table ──────────────────────────────────────────────────────> the inner step

The table is loaded when its input has reached a time, or its end. The task tells the step how far this input has come
(``on_aside``). A loaded table stays loaded: what is told later does not count. Rows wait in keyed state, so the channel
is read on, barriers pass, and a rescale or a restore needs nothing new. While rows wait, no time passes that was not
heard before them. So they are never late for the steps behind.
"""

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from penstock.base.limits import FIRED_ROWS_MAX
from penstock.contract.graph import LEFT
from penstock.contract.keygroups import Share
from penstock.contract.manifest import child_state
from penstock.model.arrays import Int32s
from penstock.steps.base import NOTHING_DUE, Emit, PlainStep
from penstock.steps.keyed import KeyColumns, OpenState
from penstock.steps.waiting_rows import BEFORE_ALL, WaitingRows

_LAST = NOTHING_DUE - 1


class InnerStep(Protocol):
    """A step with two inputs, the left of which waits."""

    name: str

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


class LoadFirstStep(PlainStep):
    """Emits what the inner step emits. Its left rows come when the table is loaded until ``until_us``."""

    def __init__(self, inner: InnerStep, keys: KeyColumns, schema: pa.Schema, until_us: int, *, timed: bool) -> None:
        """Hold rows of ``schema``. ``timed``: they have the hidden bound column."""
        super().__init__(inner.name)
        self._inner, self._until_us = inner, until_us
        self._rows = WaitingRows(keys, schema, timed=timed)
        self._loaded = False
        self._heard_us = self._held_us = BEFORE_ALL
        self.waiting = 0

    def open(self, state: OpenState) -> None:
        """Open the states: that of the inner step, and that of the rows that wait."""
        self._inner.open(state)
        self._rows.open(child_state(self.name, "waiting"), state)

    def bind(self, outputs: Mapping[str, Emit]) -> None:
        """Store the outputs, and let the inner step emit to them."""
        super().bind(outputs)
        self._inner.bind(outputs)
        self._left = self._inner.side(LEFT)

    # --- Rows ---------------------------------------------------------------------------------

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Refuse rows: each row belongs to a side."""
        raise AssertionError(f"step {self.name!r} takes rows by side")

    def side(self, name: str) -> Emit:
        """Return what takes the rows of an input."""
        return self._take if name == LEFT else self._inner.side(name)

    def _take(self, batch: pa.RecordBatch) -> None:
        if self._loaded and not self.waiting:
            self._left(batch)
            return
        self._rows.add(batch, self._heard_us)
        self._held_us = min(self._held_us, self._heard_us) if self.waiting else self._heard_us
        self.waiting += batch.num_rows

    def on_aside(self, time_us: int) -> None:
        """Take note how far the input of the table has come."""
        self._loaded = self._loaded or time_us >= self._until_us

    @property
    def ready(self) -> bool:
        """Return whether rows wait that may leave now."""
        return self._loaded and self.waiting > 0

    def release(self) -> None:
        """Give the inner step one slice of the rows that wait, in the order in which they came."""
        if not self.ready:
            return
        found = self._rows.state.take_due(_LAST, FIRED_ROWS_MAX)
        self.waiting -= len(found)
        batch = self._rows.batch(found)
        self._rows.state.delete(found)
        self._left(batch)

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
        """Tell the inner step a time that no row which waits has to come before. Returns the time reached."""
        self._heard_us = max(self._heard_us, time_us)
        return self._inner.on_watermark(min(time_us, self._held_us) if self.waiting else time_us)

    def on_groups_gained(self, share: Share, fired_us: int) -> None:
        """Tell the inner step."""
        self._inner.on_groups_gained(share, fired_us)

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return what the inner step keeps."""
        return self._inner.contents(rows)

    def counters(self) -> dict[str, int]:
        """Return the counters of the inner step."""
        return self._inner.counters()
