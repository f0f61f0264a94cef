"""Base class of steps whose rows wait for answers.

    rows that wait ──> _call ──> answers that are known already, and a call for the others
    answers ─────────> _leave ─> rows leave with them, in the order of PendingRows

A step does not reach a time while rows wait that came before it heard of this time: so no row that waits is late for
the steps behind.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

import pyarrow as pa

from penstock.base.threads import monotonic
from penstock.contract.keygroups import Share
from penstock.model.arrays import Int32s
from penstock.steps.base import PlainStep
from penstock.steps.enrich.asked_rows import AskedRows
from penstock.steps.enrich.async_calls import Ask, AsyncCalls
from penstock.steps.keyed import OpenState

T = TypeVar("T")
Answers = Sequence[tuple[int, Any]]  # the numbers of rows that wait, each with its answer


class AskedRowsStep(PlainStep, ABC, Generic[T]):
    """The :class:`~penstock.steps.enrich.async_calls.AskingStep`. A subclass makes calls, and emits rows."""

    _calls: AsyncCalls

    def __init__(self, name: str, rows: AskedRows[T]) -> None:
        """Ask for ``rows``."""
        super().__init__(name)
        self._rows, self._pending = rows, rows.pending

    def open(self, state: OpenState) -> None:
        """Open the state. Called once, before all other methods."""
        self._rows.open(self.name, state)

    def ask_through(self, calls: AsyncCalls) -> None:
        """Make calls through ``calls``."""
        self._calls = calls

    @property
    def waiting(self) -> int:
        """Return how many rows wait."""
        return len(self._pending)

    @property
    def full(self) -> bool:
        """Return whether no more rows should come before answers do."""
        return self._pending.full

    @abstractmethod
    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Take rows, and ask for as many as may be asked for now."""

    @abstractmethod
    def on_answers(self) -> None:
        """Take the answers that have come, and emit the rows that leave by them."""

    def on_loaded(self) -> None:
        """Ask for the rows that wait in state that was loaded."""
        self._rows.load()
        self._ask()

    def on_groups_lost(self, share: Share) -> None:
        """Forget rows of key groups that belong to another task now: it asks for them."""
        self._rows.give_up(share)
        self._ask()

    def _ask(self) -> None:
        """Ask for as many rows as may be asked for now. Rows whose answer is known already take it."""
        answered: list[tuple[int, Any]] = []
        now_s = monotonic()
        while (found := self._pending.to_ask()) is not None:
            number, rows = found
            known, ask = self._call(number, rows, now_s)
            answered += known
            if ask is None:
                self._pending.asked(number)
            else:
                self._calls.begin(self, number, ask)
        if answered:
            self._answer(answered)

    @abstractmethod
    def _call(self, number: int, rows: Sequence[int], now_s: float) -> tuple[Answers, Ask | None]:
        """Return answers that are known already, and the call for the other rows; None when there are none."""

    def _answer(self, answers: Iterable[tuple[int, Any]]) -> None:
        """Let rows leave by answers that have come, and ask for more."""
        if leaving := self._pending.answered(answers):
            self._leave(leaving)
        self._ask()

    @abstractmethod
    def _leave(self, leaving: Answers) -> None:
        """Emit rows with their answers, and delete them."""

    def on_watermark(self, time_us: int) -> int:
        """Take note of a time. Returns the earliest event time that waiting rows may still have, at most this one."""
        return self._rows.reached(time_us)

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return the keys of rows that wait, and their other columns."""
        return self._rows.contents(rows)

    def counters(self) -> dict[str, int]:
        """Count rows that wait."""
        return {"keys": len(self._pending)}
