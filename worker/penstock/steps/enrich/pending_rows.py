"""The rows of one task that wait for answers. Pure: it decides, and the step does.

    add ──> unasked ──to_ask──> in a call ──answered──> answered ──> leaves
                                   └── capacity calls at once       └── ordered: behind the rows before it of its key

A call has a number that is never used again in the task. An answer to a call that is not known is dropped: its rows
have been answered, or belong to another task now. Rows that a task gives up leave their calls: the answers of the
others in the call still count.
"""

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class _Row:
    line: Hashable
    held_us: int
    answer: Any = None
    answered: bool = False


class PendingRows:
    """Rows by number. Numbers rise in the order in which the rows came."""

    def __init__(self, capacity: int, batch: int, *, ordered: bool) -> None:
        """Make up to ``capacity`` calls at once, each for up to ``batch`` rows.

        ``ordered``: the rows of a line leave in the order in which they came.
        """
        self._capacity, self._batch, self._ordered = capacity, batch, ordered
        self._rows: dict[int, _Row] = {}
        self._unasked: deque[int] = deque()
        self._calls: dict[int, tuple[int, ...]] = {}
        self._lines: dict[Hashable, deque[int]] = {}
        self._held: Counter[int] = Counter()
        self._next_call = 0
        self.dropped = 0  # answers that came for calls that are not known

    def __len__(self) -> int:
        """Return how many rows wait."""
        return len(self._rows)

    @property
    def full(self) -> bool:
        """Return whether as many rows wait as can be asked for at once."""
        return len(self._rows) >= self._capacity * self._batch

    @property
    def held_us(self) -> int | None:
        """Return the least time that was heard when a row came that still waits; None if none does."""
        return min(self._held, default=None)

    def waits(self, line: Hashable) -> bool:
        """Return whether rows of a line wait, of those that leave in order."""
        return line in self._lines

    def add(self, number: int, line: Hashable, held_us: int) -> None:
        """Let a row wait that came when ``held_us`` was the time heard."""
        self._rows[number] = _Row(line, held_us)
        self._held[held_us] += 1
        self._unasked.append(number)
        if self._ordered:
            self._lines.setdefault(line, deque()).append(number)

    def to_ask(self) -> tuple[int, tuple[int, ...]] | None:
        """Return the number of the next call and its rows; None if there is nothing to ask, or no room for it."""
        if len(self._calls) >= self._capacity:
            return None
        found: list[int] = []
        while self._unasked and len(found) < self._batch:
            number = self._unasked.popleft()
            if number in self._rows:
                found.append(number)
        if not found:
            return None
        self._next_call += 1
        self._calls[self._next_call] = tuple(found)
        return self._next_call, tuple(found)

    def asked(self, call: int) -> tuple[int, ...]:
        """Return the rows of a call; () for one that is not known. Its answer has come."""
        rows = self._calls.pop(call, None)
        self.dropped += rows is None
        return () if rows is None else rows

    def answered(self, answers: Iterable[tuple[int, Any]]) -> Sequence[tuple[int, Any]]:
        """Take answers by row. Returns the rows that leave now, each with its answer."""
        leaving: list[tuple[int, Any]] = []
        for number, answer in answers:
            row = self._rows.get(number)
            if row is None:
                continue
            row.answer, row.answered = answer, True
            if self._ordered:
                self._take_first_of_line(row.line, leaving)
            else:
                self._leave(number, leaving)
        return leaving

    def _take_first_of_line(self, line: Hashable, leaving: list[tuple[int, Any]]) -> None:
        numbers = self._lines[line]
        while numbers and ((first := self._rows.get(numbers[0])) is None or first.answered):
            number = numbers.popleft()
            if first is not None:
                self._leave(number, leaving)
        if not numbers:
            del self._lines[line]

    def _leave(self, number: int, leaving: list[tuple[int, Any]]) -> None:
        leaving.append((number, self._remove(number).answer))

    def _remove(self, number: int) -> _Row:
        row = self._rows.pop(number)
        self._held[row.held_us] -= 1
        if not self._held[row.held_us]:
            del self._held[row.held_us]
        return row

    def give_up(self, numbers: Iterable[int]) -> None:
        """Forget rows that belong to another task now. The lines of these rows have no other rows here."""
        for number in numbers:
            self._lines.pop(self._remove(number).line, None)
