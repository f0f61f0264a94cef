"""Makes the parameters of a window step from the arguments of ``KeyedStream.window``."""

from penstock.base.errors import ConfigError
from penstock.base.user_code import caller_place
from penstock.contract.graph import Compute, CountWindow, Session, Window
from penstock.contract.window_sizes import check_trigger
from penstock.graph.window_shapes import CountForm, Duration, SessionForm, WindowForm, microseconds, tumbling
from penstock.graph.window_triggers import TriggerLike, trigger_of

ShapeLike = WindowForm | SessionForm | CountForm | Duration


def window_parameters(
    step: str,
    shape: ShapeLike,
    times: tuple[Duration | None, Duration],
    computed: tuple[Compute, ...],
    trigger: TriggerLike | None,
) -> Window | Session | CountWindow:
    """Describe windows; ``times`` are their offset and the allowed lateness. Raises ConfigError."""
    offset, allowed_lateness = times
    about = f"{caller_place()}: step {step!r}"
    if isinstance(shape, CountForm):
        if offset is not None or allowed_lateness != "0s" or trigger is not None:
            raise ConfigError(f"{about}: windows of rows have no time: no offset, allowed_lateness or trigger")
        return CountWindow(shape.rows, computed)
    if not isinstance(shape, Duration) and offset is not None:
        problem = (
            "a session begins with its first row: it has no offset"
            if isinstance(shape, SessionForm)
            else "say the offset in the shape, as tumbling(..., offset=)"
        )
        raise ConfigError(f"{about}: {problem}")
    lateness = microseconds("allowed_lateness", allowed_lateness)
    when = trigger_of(step, trigger)
    if isinstance(shape, SessionForm):
        if when is not None:
            raise ConfigError(f"{about}: trigger: a session emits once: two of them may still become one")
        return Session(shape.gap_us, computed, lateness)
    form = shape if isinstance(shape, WindowForm) else tumbling(shape, offset=offset or "0s")
    window = Window(form.size_us, computed, form.offset_us, lateness, form.slide_us, when)
    try:
        check_trigger(window)
    except ConfigError as error:
        raise ConfigError(f"{about}: {error}") from None
    return window
