"""The live table of a terminal, with rich: rates, backpressure, watermark lag, last epoch."""

from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from penstock.base.visible import visible
from penstock.cli.rates import (
    History,
    StepRate,
    checkpoint_text,
    short_bytes,
    short_count,
    short_seconds,
    step_rates,
)
from penstock.cli.run_events import Events, lines_of
from penstock.contract.status import (
    ENDED,
    WORKER_UP,
    JobState,
    JobStatus,
    StepStatus,
    balance_text,
    guarantee_text,
    held_up_texts,
    late_text,
    left_out_text,
    lost_texts,
    pending_text,
    schemes_text,
    unlisted_texts,
    unread_text,
    varying_text,
)

REFRESH_PER_S = 4
BAR_WIDTH = 8
_RARE: tuple[tuple[str, Callable[[StepStatus], int]], ...] = (  # columns, where there is any
    ("keys", lambda step: step.state_keys),
    ("late", lambda step: step.late_rows),
    ("no time", lambda step: step.untimed_rows),
    ("dead", lambda step: step.dead_rows),
    ("shed", lambda step: step.shed_rows),
)
_WIDEST = 10_000  # columns of a terminal
_BUSY = "busy, held back"
_SPARED = ("queued", "tasks", "rows out", "rows in")  # columns, the first one first, where a line is too short for all
_STATE_STYLE = {
    JobState.RUNNING: "bold green",
    JobState.FINISHED: "bold green",
    JobState.FAILED: "bold red",
    JobState.STOPPED: "bold",
}


class LiveScreen:
    """Redraws one table in place; notes scroll above it."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._live: Live | None = None
        self._history = History()
        self._events = Events()
        self._summary: list[str] = []

    def show(self, status: JobStatus) -> None:
        """Redraw."""
        before, now = self._history.add(status)
        picture = draw(before, now)
        for line in self._events.add(now):
            self.note(line)
        if now.state in ENDED:
            self._summary = self._events.summary(now)
        if self._live is None:
            self._live = Live(picture, console=self._console, refresh_per_second=REFRESH_PER_S)
            self._live.start()
        self._live.update(picture)

    def note(self, text: str) -> None:
        """Print a line above the table."""
        self._console.print(Text(visible(text), style="dim"))

    def close(self) -> None:
        """Leave the last table standing, and the summary below it."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        while self._summary:
            self._console.print(Text(visible(self._summary.pop(0))))


def draw(before: JobStatus | None, now: JobStatus) -> RenderableType:
    """Return the picture of a status; rates are against the one before."""
    parts: list[RenderableType] = [_title(now)]
    if now.steps:
        parts.append(_Steps(step_rates(before, now)))
    parts.append(_footer(now))
    facts = (pending_text, guarantee_text, varying_text, schemes_text, balance_text, left_out_text)
    said = (text_of(now) for text_of in facts)
    parts += [Text(visible(text), style="dim") for text in said if text]
    parts += [Text(visible(text), style="yellow") for text in map(unread_text, now.inputs) if text]
    if now.restarts is not None and now.state not in ENDED:
        lines = lines_of(now.restarts.newest[-1], now.restarts)
        parts.append(Text(visible("\n".join(lines)), style="yellow"))
    parts += [Text(visible(text), style="yellow") for text in lost_texts(now)]
    parts += [Text(visible(text), style="red") for text in (*unlisted_texts(now), *held_up_texts(now))]
    parts += [Text(visible(text), style="red") for text in (now.failure, late_text(now), now.unread) if text]
    return Group(*parts)


def draw_workers(now: JobStatus) -> RenderableType:
    """Return the table of the workers: their processes, who leads, and how often they came back."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0))
    for name in ("worker", "state", "keeper", "engine", "restarts", "metrics"):
        justify: JustifyMethod = "left" if name in {"state", "metrics"} else "right"
        table.add_column(name, justify=justify, no_wrap=True)
    for worker in now.workers:
        state = f"{worker.state}, leads" if worker.leader else worker.state
        pids = (str(pid or "-") for pid in (worker.keeper_pid, worker.engine_pid))
        table.add_row(str(worker.ordinal), state, *pids, str(worker.restarts), worker.metrics)
    return table


def _title(now: JobStatus) -> Text:
    up = sum(w.state == WORKER_UP for w in now.workers)
    text = Text.assemble(
        (now.job, "bold"),
        "  ",
        (str(now.state), _STATE_STYLE.get(now.state, "bold yellow")),
        "" if now.state in ENDED else f"  workers {up}/{now.wanted_workers}",
    )
    restarts = sum(w.restarts for w in now.workers)
    if restarts:
        text.append(f"  restarts {restarts}", style="yellow")
    return text


@dataclass(frozen=True, slots=True)
class _Steps:
    """The table of the steps. Where a line has no room for it, it has fewer columns, and no number is cut."""

    rates: tuple[StepRate, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns, unbounded = _columns(self.rates, bars=True), options.update(width=_WIDEST)
        table = self._table(columns)
        for left_out in ("", *_SPARED):
            if Measurement.get(console, unbounded, table).maximum <= options.max_width:
                break
            columns = [c for c in columns if c.name != left_out] if left_out else _columns(self.rates, bars=False)
            table = self._table(columns)
        yield table

    def _table(self, columns: "list[_Column]") -> Table:
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0))
        for column in columns:
            left = column.name in {"step", _BUSY}
            table.add_column(column.name, justify="left" if left else "right", no_wrap=True)
        for rate in self.rates:
            table.add_row(*(column.cell(rate) for column in columns))
        return table


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    cell: Callable[[StepRate], RenderableType]


def _columns(rates: tuple[StepRate, ...], *, bars: bool) -> list[_Column]:
    """Return the columns that have something to show; ``bars``: shares of time are drawn, too."""
    always = [
        _Column("step", lambda rate: rate.step.name),
        _Column("tasks", lambda rate: str(rate.step.tasks)),
        _Column("in/s", lambda rate: _if_any(rate.step.rows_in, rate.rows_in_per_s)),
        _Column("out/s", lambda rate: _if_any(rate.step.rows_out, rate.rows_out_per_s)),
        _Column("rows in", lambda rate: _if_any(rate.step.rows_in, rate.step.rows_in)),
        _Column("rows out", lambda rate: _if_any(rate.step.rows_out, rate.step.rows_out)),
        _Column("queued", lambda rate: short_bytes(rate.step.queue_bytes)),
        _Column(_BUSY, lambda rate: _shares(rate.step, bars)),
    ]
    timed = [_Column("lag", _lag)] if any(rate.lag_s is not None for rate in rates) else []
    pending = [_Column("pending", lambda rate: _pending(rate.step))] if any(_pending(r.step) for r in rates) else []
    counted = [_counted(name, read) for name, read in _RARE if any(read(rate.step) for rate in rates)]
    return [*always, *timed, *pending, *counted]


def _counted(name: str, read: Callable[[StepStatus], int]) -> _Column:
    return _Column(name, lambda rate: _if_any(read(rate.step), read(rate.step)))


def _shares(step: StepStatus, bars: bool) -> Text:
    return _bar(step.busy, step.blocked) if bars else Text(f"{step.busy:>4.0%} {step.blocked:>4.0%}")


def _if_any(rows: int, value: float) -> str:
    """Spell a count; nothing where no row ever was: sources have no input, sinks no output."""
    return short_count(value) if rows else ""


def _bar(busy: float, blocked: float) -> Text:
    """Draw the shares of working and of waiting for credit, the rest is idle."""
    work = round(min(1.0, busy) * BAR_WIDTH)
    wait = min(BAR_WIDTH - work, round(min(1.0, blocked) * BAR_WIDTH))
    return Text.assemble(
        ("█" * work, "green"),
        ("█" * wait, "red"),
        ("·" * (BAR_WIDTH - work - wait), "dim"),
        f" {busy:>4.0%} {blocked:>4.0%}",
    )


def _pending(step: StepStatus) -> str:
    """Spell what a source has left to read; nothing where that is not known."""
    if step.pending_rows is not None:
        return short_count(step.pending_rows)
    return "" if step.pending_bytes is None else short_bytes(step.pending_bytes)


def _lag(rate: StepRate) -> str:
    return "" if rate.lag_s is None else short_seconds(rate.lag_s)


def _footer(now: JobStatus) -> Text:
    checkpoint = now.checkpoint
    if checkpoint is None:
        return Text("no checkpoint yet", style="dim")
    age = max(0.0, (now.time_us - checkpoint.time_us) / 1e6)
    # That an epoch is published is noted by the next one: only what is older is late.
    published = "" if now.published_through >= checkpoint.epoch - 1 else ", output not yet visible"
    return Text(f"{checkpoint_text(checkpoint)}, {short_seconds(age)} ago{published}", style="dim")
