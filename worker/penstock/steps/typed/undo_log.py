"""Notes every write of one record, so that a record that fails leaves nothing behind.

All writes of proxies go through a log: columns of a state table, texts that wait to be stored, rows that
were cleared, and emitted records. Each entry is a container, a place in it, and what was there before.
Undo writes the entries back, the newest first.
"""

from typing import Any


class UndoLog:
    """The writes of the record that a function is called for."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        """Begin without a write."""
        self._entries: list[tuple[Any, Any, Any]] = []

    def begin(self) -> None:
        """Forget the writes of the record before. They can no longer be undone."""
        self._entries.clear()

    def write(self, target: Any, place: Any, value: Any) -> None:
        """Do ``target[place] = value``. A value must be there before."""
        self._entries.append((target, place, target[place]))
        target[place] = value

    def append(self, target: list[Any], value: Any) -> None:
        """Do ``target.append(value)``."""
        self._entries.append((target, slice(len(target), None), ()))
        target.append(value)

    def mark(self) -> int:
        """Return the place behind the newest write, for :meth:`wrote_since`."""
        return len(self._entries)

    def wrote_since(self, mark: int = 0) -> bool:
        """Return whether something was written since :meth:`begin`, or a mark. What was appended is not, as emitted."""
        return any(type(place) is not slice for _, place, _ in self._entries[mark:])

    def undo(self) -> None:
        """Revert all writes since :meth:`begin`."""
        while self._entries:
            target, place, before = self._entries.pop()
            target[place] = before
