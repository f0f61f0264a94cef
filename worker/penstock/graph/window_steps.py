"""Makes the parameters of a window step from the arguments of ``KeyedStream.window``."""

from penstock.base.errors import ConfigError
from penstock.base.user_code import caller_place
from penstock.contract.graph import Compute, CountWindow, Session, TimeKind, Window, WindowAll, WindowTop
from penstock.contract.window_parts import check_all
from penstock.contract.window_sizes import check_times, check_top
from penstock.graph.window_shapes import CountForm, Duration, SessionForm, WindowForm, microseconds, tumbling
from penstock.graph.window_triggers import TriggerLike, time_of, trigger_of

ShapeLike = WindowForm | SessionForm | CountForm | Duration


def window_parameters(
    step: str,
    shape: ShapeLike,
    times: tuple[Duration | None, Duration],
    computed: tuple[Compute, ...],
    when: tuple[TriggerLike | None, str, WindowTop | None],
) -> Window | Session | CountWindow:
    """Describe windows; ``times`` are their offset and the allowed lateness, ``when`` trigger and kind of time.

    ``when`` also has the best rows, which are checked only. Raises ConfigError.
    """
    offset, allowed_lateness = times
    about = f"{caller_place()}: step {step!r}"
    trigger, kind, top = when[0], time_of(when[1]), when[2]
    if top is not None and not isinstance(top, WindowTop):
        raise ConfigError(f"{about}: top={top!r}: write top=ps.top(10, by='count')")
    if isinstance(shape, CountForm):
        if offset is not None or allowed_lateness != "0s" or kind is TimeKind.CLOCK or trigger or top:
            raise ConfigError(
                f"{about}: windows of rows have no time: no offset, allowed_lateness, trigger, time or top"
            )
        return CountWindow(shape.rows, computed)
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
        window = Session(shape.gap_us, computed, lateness, kind)
    else:
        form = shape if isinstance(shape, WindowForm) else tumbling(shape, offset=offset or "0s")
        window = Window(form.size_us, computed, form.offset_us, lateness, form.slide_us, joined, kind)
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
