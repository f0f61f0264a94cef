"""What a running job looks like: a live table on a terminal, plain lines without one, or JSON."""

import json
import sys
from typing import IO, Protocol

from penstock.cli.rates import (
    History,
    StepRate,
    checkpoint_text,
    headline,
    short_count,
    step_rates,
)
from penstock.contract import codec
from penstock.contract.status import ENDED, JobStatus

LINE_INTERVAL_US = 2_000_000  # without a terminal nobody needs two lines a second
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


def make_screen(as_json: bool, out: IO[str] | None = None) -> Screen:
    """Choose by what is at the other end of standard output."""
    stream = out or sys.stdout
    if as_json:
        return JsonLines(stream)
    if stream.isatty():
        from penstock.cli.live import LiveScreen  # noqa: PLC0415  rich only for a terminal

        return LiveScreen()
    return PlainLines(stream)


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
    """A line for every change of state and every committed epoch, rates every two seconds."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._history = History()
        self._last: JobStatus | None = None
        self._shown_us = 0

    def show(self, status: JobStatus) -> None:
        """Write what has changed."""
        before, status = self._history.add(status)
        new = status.checkpoint
        if new is not None and (self._last is None or _epoch(self._last) != new.epoch):
            self.note(f"committed {checkpoint_text(new)}")
        changed = self._last is None or self._last.state is not status.state
        if changed:
            self.note(headline(status))
        ended = status.state in ENDED
        due = changed if ended else status.time_us - self._shown_us >= LINE_INTERVAL_US
        if due and any(s.rows_in or s.rows_out for s in status.steps):
            rates = step_rates(before, status)
            self.note("  ".join(_step_text(r) for r in rates if r.step.rows_in or r.step.rows_out))
            self._shown_us = status.time_us
        self._last = status

    def note(self, text: str) -> None:
        """Write one line."""
        print(text, file=self._out, flush=True)

    def close(self) -> None:
        """Do nothing: every line is complete."""


def _epoch(status: JobStatus) -> int:
    return status.checkpoint.epoch if status.checkpoint is not None else 0


def _step_text(rate: StepRate) -> str:
    rows = rate.step.rows_in or rate.step.rows_out
    per_s = rate.rows_in_per_s or rate.rows_out_per_s
    text = f"{rate.step.name} {short_count(rows)} ({short_count(per_s)}/s)"
    return text + (
        f" (held back {rate.step.blocked:.0%})" if rate.step.blocked > BUSY_BLOCKED else ""
    )
