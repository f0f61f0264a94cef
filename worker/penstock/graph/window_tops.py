"""Windows that are two steps: those with best rows, and those of all rows. Readers are led to the right one."""

from penstock.base import limits
from penstock.base.errors import ConfigError
from penstock.base.user_code import caller_place
from penstock.base.values import replace
from penstock.contract.chosen_rows import WindowTop
from penstock.contract.graph import LATE, MAIN, Input, Step, WindowAll
from penstock.contract.plan import Partitioning

WINDOW_COLUMNS = ("window_start", "window_end")


def top(most: int, /, *, by: str) -> WindowTop:
    """Describe the ``most`` rows of each window with the greatest values of ``by``: ``window(..., top=...)``.

    Raises ConfigError when it is not a number from 1 to 1,000.
    """
    check_most(f"{caller_place()}: top", most)
    return WindowTop(most, by)


def check_most(about: str, most: int) -> None:
    """Refuse a number of best rows that cannot be kept."""
    if type(most) is not int or not 1 <= most <= limits.TOP_ROWS_MAX:
        raise ConfigError(f"{about}: {most!r} rows: it must be 1 to {limits.TOP_ROWS_MAX:,}")


def top_name(step: str) -> str:
    """Name the step that keeps the best rows of the windows of a step."""
    return f"{step}-top"


def top_step(step: str, best: WindowTop, parallelism: int | None) -> Step:
    """Return the step that keeps the best rows of the windows of ``step``. All rows of a window meet in one task."""
    reads = Input(step, MAIN, Partitioning.KEY, WINDOW_COLUMNS)
    return Step(top_name(step), best, (reads,), parallelism)


def parts_name(step: str) -> str:
    """Name the step that computes the parts of the windows of a step."""
    return f"{step}-parts"


def all_step(step: str, windows: WindowAll, parallelism: int | None) -> Step:
    """Return the step that puts the parts of windows together. All parts of a window meet in one task."""
    reads = Input(parts_name(step), MAIN, Partitioning.KEY, WINDOW_COLUMNS)
    return Step(step, windows, (reads,), parallelism)


def led_to_parts(step: Step, alls: set[str]) -> Step:
    """Let a step that reads late rows of windows of all rows read them where they are found."""
    led = (i.step in alls and i.output == LATE for i in step.inputs)
    inputs = (replace(i, step=parts_name(i.step)) if here else i for i, here in zip(step.inputs, led, strict=True))
    return replace(step, inputs=tuple(inputs))


def led_to_top(step: Step, tops: set[str]) -> Step:
    """Let a step that reads windows of ``tops`` read their best rows; late rows come from the windows themselves."""
    if isinstance(step.parameters, WindowTop):
        return step
    led = (i.step in tops and i.output == MAIN for i in step.inputs)
    inputs = (replace(i, step=top_name(i.step)) if here else i for i, here in zip(step.inputs, led, strict=True))
    return replace(step, inputs=tuple(inputs))


def step_of(steps: list[Step], name: str, output: str) -> str:
    """Return which step has an output of what ``window`` returned: late rows do not reach the second step."""
    step = next(s for s in steps if s.name == name)
    two = isinstance(step.parameters, WindowTop | WindowAll)
    return step.inputs[0].step if two and output == LATE else name
