"""Windows of which a function sees all rows: ``f(key, window, rows, out)``.

The step of the shape says which windows there are, when each emits and which rows are late. It computes nothing, and
the rows are kept beside it (:mod:`penstock.steps.windows.whole_rows`). When it emits a window, the function is called
with its rows, and what that emits follows the columns of the window.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.errors import UserCodeError, Where
from penstock.base.limits import FIRED_TIMERS_MAX
from penstock.contract.keygroups import Share
from penstock.model.arrays import Int32s, Int64s, fixed
from penstock.steps.base import Emit, PlainStep, split_hidden, with_hidden
from penstock.steps.kept_records import kept_record
from penstock.steps.keyed import OpenState
from penstock.steps.stateless import from_records
from penstock.steps.typed.record_calls import check_returns_nothing
from penstock.steps.typed.timer_calls import Key
from penstock.steps.user_calls import NOT_THE_USERS, as_batch, one_batch
from penstock.steps.windows.sessions import SessionStep
from penstock.steps.windows.sliding import SlidingStep
from penstock.steps.windows.tumbling import WindowStep
from penstock.steps.windows.whole_rows import WholeRows, WindowRows

ShapeStep = WindowStep | SlidingStep | SessionStep
WholeFunction = Callable[[Key, "WindowTimes", pa.RecordBatch, "WindowOut"], None]


@dataclass(frozen=True, slots=True)
class WindowTimes:
    """Start and end of a window, in whole microseconds of UTC as ``ps.Time``."""

    start: int
    end: int


class WindowOut:
    """What a function emits for one window."""

    def __init__(self, schema: pa.Schema) -> None:
        """Take rows of ``schema``."""
        self._schema = schema
        self._given: list[Any] = []

    def emit(self, rows: Any) -> None:
        """Emit one row, a dict, or the rows of a RecordBatch or Table. Raises TypeError for other columns."""
        self._given.append(kept_record(rows) if isinstance(rows, dict) else as_batch(one_batch(rows), self._schema))

    def take(self) -> list[pa.RecordBatch]:
        """Return what was emitted, in order, and forget it. Raises TypeError or ValueError for a wrong dict."""
        runs = [(kind, list(run)) for kind, run in groupby(self._given, lambda given: isinstance(given, dict))]
        self._given = []
        return [batch for dicts, run in runs for batch in ([from_records(run, self._schema)] if dicts else run)]


class WholeStep(PlainStep):
    """Emits keys, window_start, window_end and the columns of the function, for each row that it emits."""

    def __init__(
        self,
        inner: ShapeStep,
        kept: WholeRows,
        function: WholeFunction,
        output: pa.Schema,
    ) -> None:
        """Call ``function`` with the windows that ``inner`` emits, whose rows ``kept`` has; emit rows of ``output``."""
        super().__init__(inner.name)
        inner.slice_rows = FIRED_TIMERS_MAX
        self._inner, self._kept, self._function, self._output = inner, kept, function, output

    def open(self, state: OpenState) -> None:
        """Open both states. Called once, before all other methods."""
        self._kept.open(state)
        self._inner.open(state)

    def bind(self, outputs: Mapping[str, Emit]) -> None:
        """Store the outputs."""
        super().bind(outputs)
        self._inner.bind({**outputs, "main": self._fire})

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Keep rows until their windows emit. Late rows go to the output ``late`` unchanged."""
        self._inner.on_batch(batch)

    def on_watermark(self, time_us: int) -> int:
        """Emit windows whose end plus lateness the watermark has reached, at most one slice.

        Returns the time reached.
        """
        return self._inner.on_watermark(time_us)

    def _fire(self, windows: pa.RecordBatch) -> None:
        plain, bounds = split_hidden(windows)
        *keys, starts, ends = plain.columns
        times = fixed(starts, np.int64), fixed(ends, np.int64)
        for part in self._kept.take(keys, *times):
            emitted = list(self._called(part, keys, times))
            if not emitted:
                continue
            numbers = pa.array(np.repeat([number for number, _ in emitted], [rows.num_rows for _, rows in emitted]))
            made = pa.concat_batches([rows for _, rows in emitted])
            columns = [*plain.take(numbers).columns, *made.columns]
            result = pa.RecordBatch.from_arrays(columns, schema=self._output)
            self._emit(with_hidden(result, None if bounds is None else bounds.take(numbers)))

    def _called(self, part: WindowRows, keys: list[pa.Array], times: tuple[Int64s, Int64s]) -> Any:
        """Yield what the function emits, with the number of the window."""
        starts, ends = times
        some = slice(part.first, part.first + len(part.ends) - 1)
        names = self._output.names[: len(keys)]
        values = zip(*(_values(column[some]) for column in keys), strict=True)
        out = WindowOut(pa.schema(list(self._output)[len(keys) + 2 :]))
        for i, value in enumerate(values):
            key = Key(**dict(zip(names, value, strict=True)))
            window = WindowTimes(int(starts[part.first + i]), int(ends[part.first + i]))
            rows = part.rows.slice(part.ends[i], part.ends[i + 1] - part.ends[i])
            try:
                check_returns_nothing(self._function(key, window, rows, out), "out")
                emitted = out.take()
            except BaseException as error:
                if isinstance(error, NOT_THE_USERS):
                    raise
                begin, end = (np.datetime64(time, "us") for time in (window.start, window.end))
                raise UserCodeError(Where(self.name, record=f"window {begin} to {end}, {key}"), error) from error
            yield from ((part.first + i, batch) for batch in emitted if batch.num_rows)

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return the keys and times of open windows."""
        return self._inner.contents(rows)

    def on_groups_gained(self, share: Share, fired_us: int) -> None:
        """Take note that windows of these groups up to this time may have emitted."""
        self._inner.on_groups_gained(share, fired_us)

    def counters(self) -> dict[str, int]:
        """Return how many windows are open, and how many rows were late for each cause."""
        return self._inner.counters()


def _values(column: pa.Array) -> list[Any]:
    """Return the values of a key column as Python has them; times are whole microseconds."""
    return list(column.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(column.type) else column.to_pylist())
