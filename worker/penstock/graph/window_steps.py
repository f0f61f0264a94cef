"""Makes the parameters of a window step from the arguments of ``KeyedStream.window``."""

import inspect
from collections.abc import Mapping

from penstock.base.errors import ConfigError
from penstock.base.user_code import caller_place
from penstock.contract.call_types import WholeCall
from penstock.contract.chosen_rows import WindowTop
from penstock.contract.codec import ABSENT
from penstock.contract.graph import Compute, CountWindow, Session, TimeKind, Window, WindowAll
from penstock.contract.window_parts import check_all
from penstock.contract.window_sizes import check_times, check_top
from penstock.graph.aggregations import Aggregation
from penstock.graph.arguments import ColumnsLike, UserFunction, columns_of, computed_of
from penstock.graph.draft import label
from penstock.graph.window_shapes import CountForm, Duration, SessionForm, WindowForm, microseconds, tumbling
from penstock.graph.window_triggers import TriggerLike, time_of, trigger_of
from penstock.model.declared.function_types import function_place

ShapeLike = WindowForm | SessionForm | CountForm | Duration


def computed_or_whole(
    step: str, compute: Mapping[str, Aggregation], whole: UserFunction | None, columns: ColumnsLike
) -> tuple[Compute, ...] | WholeCall:
    """Return what a window computes, or the function that sees all its rows. Raises ConfigError."""
    about = f"{caller_place()}: step {step!r}"
    if whole is None:
        if columns is not None:
            raise ConfigError(f"{about}: columns are those that whole=f emits, and there is none")
        return computed_of(step, compute)
    if compute:
        raise ConfigError(f"{about}: {', '.join(compute)}: whole sees all rows, and gives the columns itself")
    check_whole(whole, about)
    return WholeCall(label(whole), columns_of(columns))


def check_whole(function: UserFunction, about: str) -> None:
    """Refuse what cannot be called with a whole window. ``about`` begins error messages."""
    if not callable(function):
        raise ConfigError(f"{about}: whole={function!r} is not a function: write f(key, window, rows, out)")
    try:
        inspect.signature(function).bind("key", "window", "rows", "out")
    except TypeError as error:
        raise ConfigError(
            f"{about}: whole: {function_place(function)}: {error}; the function must be f(key, window, rows, out)"
        ) from None
    except ValueError:  # a function of C that does not tell its parameters
        return


def window_parameters(
    step: str,
    shape: ShapeLike,
    times: tuple[Duration | None, Duration],
    computed: tuple[Compute, ...] | WholeCall,
    when: tuple[TriggerLike | None, str, WindowTop | None],
) -> Window | Session | CountWindow:
    """Describe windows; ``times`` are their offset and the allowed lateness, ``when`` trigger and kind of time.

    ``when`` also has the best rows, which are checked only. Raises ConfigError.
    """
    offset, allowed_lateness = times
    about = f"{caller_place()}: step {step!r}"
    trigger, kind, top = when[0], time_of(when[1]), when[2]
    compute, whole = ((), computed) if isinstance(computed, WholeCall) else (computed, ABSENT)
    if top is not None and not isinstance(top, WindowTop):
        raise ConfigError(f"{about}: top={top!r}: write top=ps.top(10, by='count')")
    if isinstance(shape, CountForm):
        if offset is not None or allowed_lateness != "0s" or kind is TimeKind.CLOCK or trigger or top:
            raise ConfigError(
                f"{about}: windows of rows have no time: no offset, allowed_lateness, trigger, time or top"
            )
        if whole is not ABSENT:
            raise ConfigError(f"{about}: whole: of a window of rows, keep the rows in a ps.List of a process step")
        return CountWindow(shape.rows, compute)
    if not isinstance(shape, Duration) and offset is not None:
        problem = (
            "a session begins with its first row: it has no offset"
            if isinstance(shape, SessionForm)
            else "say the offset in the shape, as tumbling(..., offset=)"
        )
        raise ConfigError(f"{about}: {problem}")
    lateness = microseconds("allowed_lateness", allowed_lateness)
    joined = trigger_of(step, trigger)
    window: Window | Session
    if isinstance(shape, SessionForm):
        if joined is not None:
            raise ConfigError(f"{about}: trigger: a session emits once: two of them may still become one")
        window = Session(shape.gap_us, compute, lateness, kind, whole)
    else:
        form = shape if isinstance(shape, WindowForm) else tumbling(shape, offset=offset or "0s")
        window = Window(form.size_us, compute, form.offset_us, lateness, form.slide_us, joined, kind, whole)
    try:
        check_times(window)
        check_top(window, top is not None)
    except ConfigError as error:
        raise ConfigError(f"{about}: {error}") from None
    return window


def window_all_parameters(
    step: str, shape: WindowForm | Duration, allowed_lateness: Duration, computed: tuple[Compute, ...]
) -> WindowAll:
    """Describe windows of all rows. Raises ConfigError."""
    windows = window_parameters(step, shape, (None, allowed_lateness), computed, (None, TimeKind.EVENT, None))
    about = f"{caller_place()}: step {step!r}"
    if not isinstance(windows, Window):
        raise ConfigError(f"{about}: windows of all rows are tumbling or sliding")
    try:
        check_all(computed)
    except ConfigError as error:
        raise ConfigError(f"{about}: {error}") from None
    return WindowAll(windows.size_us, computed, windows.offset_us, windows.allowed_lateness_us, windows.slide_us)
