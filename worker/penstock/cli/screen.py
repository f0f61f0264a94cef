"""What a running job looks like: a live table on a terminal, plain lines without one, or JSON."""

import json
import os
import sys
from collections.abc import Callable
from typing import IO, Protocol

from penstock.base.visible import visible
from penstock.cli.rates import (
    History,
    StepRate,
    checkpoint_text,
    headline,
    short_count,
    step_rates,
)
from penstock.cli.run_events import Events
from penstock.contract import codec
from penstock.contract.status import ENDED, JobState, JobStatus

LINE_INTERVAL_US = 2_000_000  # two lines a second are too many without a terminal
BUSY_BLOCKED = 0.3  # share of waiting from which a step counts as held back


class Screen(Protocol):
    """Shows statuses as they come; ``close`` leaves the last one standing."""

    def show(self, status: JobStatus) -> None:
        """Show a status, newer than the one before."""
        ...

    def note(self, text: str) -> None:
        """Show one line about what happens."""
        ...

    def close(self) -> None:
        """Give the terminal back; idempotent."""
        ...


def make_screen(as_json: bool, out: IO[str] | None = None, *, quiet: bool = False) -> Screen:
    """Choose by what is at the other end of standard output.

    ``quiet``: say what happens, but no progress, which would come between a debugger and its user.
    """
    stream = out or sys.stdout
    if as_json:
        return JsonLines(stream)
    if quiet:
        return PlainLines(stream, progress=False)
    if stream.isatty():
        from penstock.cli.live import LiveScreen  # noqa: PLC0415  rich only for a terminal

        return LiveScreen()
    return PlainLines(stream)


class Watched:
    """Shows on another screen while it is read; ``lost`` says why it is read no more."""

    def __init__(self, screen: Screen) -> None:
        self.lost: str | None = None
        self._screen = screen

    def show(self, status: JobStatus) -> None:
        """Show the status, or note that it is not read."""
        self._do(lambda: self._screen.show(status))

    def note(self, text: str) -> None:
        """Show one line, or note that it is not read."""
        self._do(lambda: self._screen.note(text))

    def close(self) -> None:
        """Give the terminal back."""
        self._do(self._screen.close)

    def _do(self, write: Callable[[], None]) -> None:
        if self.lost is not None:
            return
        try:
            write()
        except OSError as error:
            self.lost = error.strerror or str(error)
            # What is still buffered would fail again when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class JsonLines:
    """One status a line, as JSON."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def show(self, status: JobStatus) -> None:
        """Write the status."""
        print(codec.encode(status).decode(), file=self._out, flush=True)

    def note(self, text: str) -> None:
        """Write the note as an object."""
        print(json.dumps({"note": text}), file=self._out, flush=True)

    def close(self) -> None:
        """Do nothing: every line is complete."""


class PlainLines:
    """A line for everything that happens and every committed epoch, rates every two seconds.

    Each begins with the seconds since the first one.
    """

    def __init__(self, out: IO[str], *, progress: bool = True) -> None:
        self._out = out
        self._progress = progress
        self._history = History()
        self._events = Events()
        self._last: JobStatus | None = None
        self._told = 0  # the newest epoch that has been said
        self._untold = False
        self._shown_us = 0
        self._now_us = 0

    def show(self, status: JobStatus) -> None:
        """Write what has changed."""
        before, status = self._history.add(status)
        happened = self._events.add(status)
        changed = self._last is None or self._last.state is not status.state
        if status.state in ENDED:
            self._end(status, happened, changed)
            return
        self._say_status(before, status, [*([headline(status)] if changed else []), *happened])

    def _say_status(self, before: JobStatus | None, status: JobStatus, news: list[str]) -> None:
        self._now_us = status.time_us
        new = status.checkpoint
        if self._last is None and new is not None and status.state is JobState.STARTING:
            self._told = new.epoch  # of an earlier run
        # The leader's word on size and time comes after the commit: wait for it one look.
        told = new is not None and new.epoch != self._told and (new.duration_s or self._untold)
        if new is not None and told and self._progress:
            self.note(f"committed {checkpoint_text(new)}")
            self._told = new.epoch
        self._untold = new is not None and new.epoch != self._told
        for line in news:
            self.note(line)
        due = status.time_us - self._shown_us >= LINE_INTERVAL_US
        counted = [r for r in step_rates(before, status) if r.step.rows_in or r.step.rows_out]
        if self._progress and due and counted and status.state is not JobState.RESTARTING:
            self.note("  ".join(_step_text(rate) for rate in counted))
            self._shown_us = status.time_us
        self._last = status

    def _end(self, status: JobStatus, happened: list[str], changed: bool) -> None:
        """Write what is new with the last status, in a short run all of it, and the summary."""
        self._now_us = status.time_us
        for line in (*happened, *(self._events.summary(status) if changed else ())):
            self.note(line)
        self._last = status

    def note(self, text: str) -> None:
        """Write one line."""
        elapsed = self._events.elapsed_s(self._now_us)
        print(f"[{elapsed:6.1f} s] {visible(text)}", file=self._out, flush=True)

    def close(self) -> None:
        """Do nothing: every line is complete."""


def _step_text(rate: StepRate) -> str:
    rows = rate.step.rows_in or rate.step.rows_out
    per_s = rate.rows_in_per_s or rate.rows_out_per_s
    text = f"{rate.step.name} {short_count(rows)} ({short_count(per_s)}/s)"
    return text + (f" (held back {rate.step.blocked:.0%})" if rate.step.blocked > BUSY_BLOCKED else "")
