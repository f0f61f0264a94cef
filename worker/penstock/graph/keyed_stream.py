"""The steps of the Python API that keep state for each key: aggregates, windows, process and others."""

from collections.abc import Mapping

from penstock.base.errors import ConfigError
from penstock.base.user_code import caller_place, users_frame
from penstock.contract.call_types import TimerHandler
from penstock.contract.chosen_rows import Distinct, LatestRow, Top, WindowTop
from penstock.contract.graph import Aggregate, Process
from penstock.graph.aggregations import Aggregation
from penstock.graph.arguments import (
    ColumnsLike,
    CompiledLike,
    OnErrorLike,
    PerLike,
    UserFunction,
    call_of,
    columns_of,
    computed_of,
)
from penstock.graph.builder import Stream
from penstock.graph.draft import CALL, label
from penstock.graph.side_input import SideInput, side_edges
from penstock.graph.timer_handlers import check_handlers, timer_role
from penstock.graph.window_shapes import Duration, microseconds
from penstock.graph.window_steps import ShapeLike, computed_or_whole, window_parameters
from penstock.graph.window_tops import check_most, top_step
from penstock.graph.window_triggers import TimeLike, TriggerLike


class KeyedStream(Stream):
    """Rows that are partitioned by key. The next step may keep state for each key."""

    def aggregate(self, name: str, /, **compute: Aggregation) -> Stream:
        """Emit one row for each row: its keys, and the values of the key so far.

        Each keyword names a computed column: ``count=ps.count()``.
        """
        return self._step(name, Aggregate(computed_of(name, compute)))

    def window(
        self,
        name: str,
        shape: ShapeLike,
        /,
        *,
        offset: Duration | None = None,
        allowed_lateness: Duration = "0s",
        trigger: TriggerLike | None = None,
        time: TimeLike = "event",
        top: WindowTop | None = None,
        whole: UserFunction | None = None,
        columns: ColumnsLike = None,
        **compute: Aggregation,
    ) -> Stream:
        """Emit one row for each key and window of event time, or of the clock (``time="clock"``).

        ``shape`` is ``ps.tumbling("1m")``, ``ps.sliding("10m", "1m")``, ``ps.session("30m")``, or
        ``ps.count_window(100)``: each 100 rows of a key, without columns of time. A text is the length of tumbling
        windows; ``offset`` shifts them. A window emits when the watermark reaches its end plus ``allowed_lateness``.
        The columns are the keys, window_start and window_end (timestamp[us]), and the computed columns. Rows that
        arrive later go to the output ``late``. If nothing reads this output, late rows are counted and dropped.

        With ``trigger`` (``ps.early("10s")``, ``ps.on_late()`` or both in a tuple) a tumbling window also emits before
        that: panes with the totals so far. ``pane`` (0, 1, ..) and ``final`` (true for the last one) follow
        ``window_end``. ``top``, as ``ps.top(10, by="count")``, keeps the best rows of each window, whatever their key.

        With ``whole`` the rows are kept, and ``whole(key, window, rows, out)`` sees all rows of a window, in place of
        computed columns. ``key`` has an attribute for each key column, ``window`` has ``start`` and ``end`` in
        microseconds, and ``rows`` is a RecordBatch in the order of time. It emits by ``out.emit(...)`` dicts or
        RecordBatches with ``columns``, which follow the keys, window_start and window_end. Raises ConfigError.
        """
        times = offset, allowed_lateness
        computed = computed_or_whole(name, compute, whole, columns)
        parameters = window_parameters(name, shape, times, computed, (trigger, time, top))
        windows = self._step(name, parameters)
        if whole is not None:
            self.job.draft.functions[name, CALL] = whole
        return windows if top is None else self.job._add(top_step(name, top, self.parallelism), caller_place())

    def distinct(self, name: str, *, within: Duration | None = None, allowed_lateness: Duration = "0s") -> Stream:
        """Emit the rows of each key that are no duplicates, unchanged and at once.

        Of each key the first row is emitted, and then the next row whose event time is at least ``within`` after
        that of the row emitted before. Without ``within`` no other row of the key is ever emitted. Rows that arrive
        more than ``allowed_lateness`` too late go to the output ``late``. Raises ConfigError.
        """
        size = None if within is None else microseconds("within", within)
        if size == 0:
            raise ConfigError(f"{caller_place()}: step {name!r}: within={within!r}: it must be longer")
        late = microseconds("allowed_lateness", allowed_lateness)
        if late and size is None:
            raise ConfigError(
                f"{caller_place()}: step {name!r}: without within no row is late: leave allowed_lateness out"
            )
        return self._step(name, Distinct(size, late))

    def latest(self, name: str, *, by: str) -> Stream:
        """Emit the row of each key with the greatest value of ``by``, each time that it changes.

        The columns are ``op``, which is always ``upsert``, and those of the row. Only a sink can read them.
        """
        return self._step(name, LatestRow(by))

    def top(self, name: str, most: int, /, *, by: str) -> Stream:
        """Emit the changes of the ``most`` rows of each key with the greatest values of ``by``.

        The columns are ``op`` and those of the row: ``upsert`` for a row that enters, ``delete`` for one that
        leaves. Only a sink can read them. Raises ConfigError.
        """
        check_most(f"{caller_place()}: step {name!r}", most)
        return self._step(name, Top(most, by))

    def process(
        self,
        name: str,
        function: UserFunction,
        *,
        state: ColumnsLike = None,
        columns: ColumnsLike = None,
        per: PerLike | None = None,
        batch_rows: int | None = None,
        on_error: OnErrorLike = "fail",
        compiled: CompiledLike = "auto",
        on_timer: Mapping[str, UserFunction] | None = None,
        side: Mapping[str, SideInput] | None = None,
    ) -> Stream:
        """Call ``function`` with rows of keys that the task owns, and the state of the keys.

        A function with types, ``f(r: A, s: S, out: ps.Out[B, {"rare": C}])``, takes a ``ps.record`` and the
        ``ps.state`` of its key, and emits records: ``out.emit(B(...))``, and ``out.to("rare", C(...))`` for the
        output ``rare``. A record for which it raises changes nothing. ``on_timer`` has a function for each ``ps.Timer``
        of the state, ``f(t: ps.Time, key, s: S, out: ps.Out[B])``. It is called once when event time reaches the timer.

        Without types it is ``function(rows, state)``. ``state`` declares the columns of the state; each key has
        one value per column. ``columns`` are required. The state is part of every checkpoint.

        ``side`` has tables that each task has a copy of, by the names under which the function reads them:
        ``side={"rules": rules.side("rules", on="id")}`` and ``side.rules.get(r.rule)``. The function then gets ``side``
        behind the state: ``f(r, s, side, out)``, ``function(rows, state, side)``. Raises ConfigError.
        """
        call = call_of(function, per, batch_rows, columns, on_error, compiled=compiled)
        handlers = dict(on_timer or {})
        named = tuple(TimerHandler(timer, label(handler)) for timer, handler in handlers.items())
        tables = side_edges(f"{caller_place()}: step {name!r}", self.job, side)
        stream = self._step(name, Process(call, columns_of(state), named), function, per, tables)
        draft = self.job.draft
        about = f"{draft.place(name)}: step {name!r}"
        check_handlers(draft.types.get(name), handlers, about, users_frame().f_locals)
        draft.functions |= {(name, timer_role(timer)): handler for timer, handler in handlers.items()}
        return stream
