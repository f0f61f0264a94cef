"""Cells of lists, maps, sets and timers. Functions get these objects themselves.

How many entries there are is a column of the step's table, and so is the number of a list's first item. All
writes go through the log of the record. A loop over a map, a set or timers goes through the entries that are there
when it begins; a loop over a list goes on until the list ends.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from penstock.model.declared.field_kinds import FIRST, LENGTH, NEXT, ListField, MapField, SetField, TimersField
from penstock.model.declared.state_types import KeptField
from penstock.model.declared.value_kinds import Item
from penstock.model.table_columns import NO_TIMER
from penstock.steps.typed.bound_table import BoundTable
from penstock.steps.typed.entry_tables import GONE, READ_AHEAD, BoundEntries, entry_form, key_kind
from penstock.steps.typed.value_cells import Cursor
from penstock.steps.typed.value_rules import checked, rule_of

_NOTHING: Any = memoryview(b"")


class EntriesCell:
    """What all of these cells do: they count their entries, bound them, and show themselves."""

    def __init__(self, label: str, field: KeptField, cursor: Cursor) -> None:
        """Show ``field``. ``label`` names it in errors."""
        assert isinstance(field.kind, ListField | MapField | SetField | TimersField), "one cell for each kind"
        self._label = label
        self._name = field.name
        self._most = field.kind.most
        self._form = entry_form(field.kind)
        self._key = Item(key_kind(field.kind))
        self._key_rule = rule_of(self._key)
        self._cursor = cursor
        self._lengths: Any = _NOTHING
        self._entries: Any = None

    def bind(self, table: BoundTable) -> None:
        """Take the columns and the child table."""
        self._lengths = table.fixed(self._name + LENGTH)
        self._entries = table.later(BoundEntries(table, self._name, self._form))

    def shown(self) -> property:
        """Return the property that shows this object."""
        return property(lambda _: self)

    def is_first(self) -> bool:
        """Return whether there is no entry."""
        return not len(self)

    def reset(self) -> None:
        """Remove all entries."""
        self.clear()

    def export(self) -> list[Any]:
        """Return the entries as Arrow takes them."""
        raise NotImplementedError

    def load(self, value: Any) -> None:
        """Replace all entries."""
        raise NotImplementedError

    def clear(self) -> None:
        """Remove all entries."""
        if len(self):
            row = self._cursor.row
            for key in self._entries.keys(row):
                self._cursor.log.write(self._entries.at(row, key), key, GONE)
            self._count(0)

    def __len__(self) -> int:
        """Return how many entries there are."""
        found: int = self._lengths[self._cursor.row]
        return found

    def _count(self, entries: int) -> None:
        self._cursor.log.write(self._lengths, self._cursor.row, entries)

    def _one_more(self) -> None:
        if len(self) >= self._most:
            raise OverflowError(
                f"{self._label} has {self._most:,} entries, and no room for another one: "
                f"remove some, or allow more by ps.field(max=...)"
            )
        self._count(len(self) + 1)

    # --- Entries by subkey: of maps, sets and timers ------------------------------------------

    def _kept_key(self, key: Any) -> Any:
        found = checked(self._key_rule, key, self._key, f"a key of {self._label}")
        if isinstance(found, float):
            if math.isnan(found):
                raise ValueError(f"a key of {self._label} cannot be nan, which equals no key")
            return found + 0.0  # -0.0 is the key 0.0
        return found

    def _value(self, key: Any) -> Any:
        """Return the value of a subkey, GONE if there is none."""
        kept = self._kept_key(key)
        return self._entries.at(self._cursor.row, kept)[kept]

    def _put(self, key: Any, value: Any) -> None:
        kept = self._kept_key(key)
        entries = self._entries.at(self._cursor.row, kept)
        if entries[kept] is GONE:
            self._one_more()
        self._cursor.log.write(entries, kept, value)

    def _remove(self, key: Any) -> Any:
        """Remove a subkey; return its value, GONE if there was none."""
        kept = self._kept_key(key)
        entries = self._entries.at(self._cursor.row, kept)
        value = entries[kept]
        if value is not GONE:
            self._cursor.log.write(entries, kept, GONE)
            self._count(len(self) - 1)
        return value

    def _keys(self) -> list[Any]:
        found: list[Any] = self._entries.keys(self._cursor.row) if len(self) else []
        return found


class MapCell(EntriesCell):
    """A map of the key, in the order of its own keys."""

    def __init__(self, label: str, field: KeptField, cursor: Cursor) -> None:
        """Show ``field``. ``label`` names it in errors."""
        super().__init__(label, field, cursor)
        assert isinstance(field.kind, MapField), "one cell for each kind"
        self._item = field.kind.value
        self._rule = rule_of(self._item)

    def __contains__(self, key: Any) -> bool:
        """Return whether there is an entry."""
        return self._value(key) is not GONE

    def __getitem__(self, key: Any) -> Any:
        """Return the value of a key. Raises KeyError if there is none."""
        value = self._value(key)
        if value is GONE:
            raise KeyError(key)
        return value

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, or ``default``."""
        value = self._value(key)
        return default if value is GONE else value

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set the value of a key."""
        self._put(key, checked(self._rule, value, self._item, f"a value of {self._label}"))

    def __delitem__(self, key: Any) -> None:
        """Remove a key. Raises KeyError if it is not there."""
        if self._remove(key) is GONE:
            raise KeyError(key)

    def pop(self, key: Any, default: Any = None) -> Any:
        """Remove a key and return its value, or ``default``."""
        value = self._remove(key)
        return default if value is GONE else value

    def __iter__(self) -> Iterator[Any]:
        """Go through the keys, rising."""
        return iter(self._keys())

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Go through the entries, rising by key. One that is removed meanwhile is left out."""
        for key in self._keys():
            value = self._value(key)
            if value is not GONE:
                yield key, value

    def export(self) -> list[tuple[Any, Any]]:
        """Return the entries as Arrow takes them for a map, rising by key."""
        return [(key, arrow_form(value)) for key, value in self.items()]

    def load(self, value: Mapping[Any, Any] | None) -> None:
        """Replace all entries."""
        self.clear()
        for key, each in (value or {}).items():
            self[key] = each

    def __repr__(self) -> str:
        """Spell the entries."""
        return f"Map({dict(self.items())})"


class SetCell(EntriesCell):
    """A set of the key, in order."""

    def add(self, key: Any) -> None:
        """Add an entry."""
        self._put(key, True)

    def discard(self, key: Any) -> None:
        """Remove an entry if it is there."""
        self._remove(key)

    def __contains__(self, key: Any) -> bool:
        """Return whether there is an entry."""
        return self._value(key) is not GONE

    def __iter__(self) -> Iterator[Any]:
        """Go through the entries, rising."""
        return iter(self._keys())

    def export(self) -> list[Any]:
        """Return the entries as Arrow takes them for a list, rising."""
        return self._keys()

    def load(self, value: Iterable[Any] | None) -> None:
        """Replace all entries."""
        self.clear()
        for key in value or ():
            self.add(key)

    def __repr__(self) -> str:
        """Spell the entries."""
        return f"Set({self._keys()})"


class ListCell(EntriesCell):
    """A list of the key. Its items are numbered from the first one that there ever was."""

    def __init__(self, label: str, field: KeptField, cursor: Cursor) -> None:
        """Show ``field``. ``label`` names it in errors."""
        super().__init__(label, field, cursor)
        assert isinstance(field.kind, ListField), "one cell for each kind"
        self._item = field.kind.item
        self._rule = rule_of(self._item)
        self._firsts: Any = _NOTHING

    def bind(self, table: BoundTable) -> None:
        """Take the columns and the child table."""
        super().bind(table)
        self._firsts = table.fixed(self._name + FIRST)

    def append(self, value: Any) -> None:
        """Add an item at the end."""
        kept = checked(self._rule, value, self._item, f"an item of {self._label}")
        row = self._cursor.row
        number = self._firsts[row] + len(self)
        self._one_more()
        self._cursor.log.write(self._entries.missing(row, number), number, kept)

    def popleft(self) -> Any:
        """Remove the first item and return it. Raises IndexError if there is none."""
        row = self._cursor.row
        if not len(self):
            raise IndexError(f"{self._label} is empty: popleft")
        number = self._firsts[row]
        entries = self._at(number)
        value = entries[number]
        self._cursor.log.write(entries, number, GONE)
        self._cursor.log.write(self._firsts, row, number + 1)
        self._count(len(self) - 1)
        return value

    def _at(self, number: int) -> dict[int, Any]:
        found: dict[int, Any] = self._entries.at(self._cursor.row, number, READ_AHEAD)
        return found

    def _number(self, index: int) -> int:
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"{self._label} has {len(self)} items, and none at {index}")
        found: int = self._firsts[self._cursor.row] + at
        return found

    def __getitem__(self, index: int) -> Any:
        """Return an item: 0 is the first one, -1 the last one."""
        number = self._number(index)
        return self._at(number)[number]

    def __setitem__(self, index: int, value: Any) -> None:
        """Replace an item."""
        kept = checked(self._rule, value, self._item, f"an item of {self._label}")
        number = self._number(index)
        self._cursor.log.write(self._at(number), number, kept)

    def __iter__(self) -> Iterator[Any]:
        """Go through the items, the first one first."""
        index = 0
        while index < len(self):
            yield self[index]
            index += 1

    def export(self) -> list[Any]:
        """Return the items as Arrow takes them for a list."""
        return [arrow_form(value) for value in self]

    def load(self, value: Iterable[Any] | None) -> None:
        """Replace all items."""
        self.clear()
        for each in value or ():
            self.append(each)

    def __repr__(self) -> str:
        """Spell the items."""
        return f"List({list(self)})"


class TimersCell(SetCell):
    """Times of the key, rising. If a function is called for them, a timer column has the time of the next call.

    That time may be earlier than the first of the times, because one was discarded. Then nothing is called.
    """

    def __init__(self, label: str, field: KeptField, cursor: Cursor) -> None:
        """Show ``field``. ``label`` names it in errors."""
        super().__init__(label, field, cursor)
        self.fires = False  # whether a function is called: the table has the column
        self.set_at_end: list[tuple[int, int]] | None = None  # rows and times, at the end of the input
        self._next: Any = _NOTHING

    def bind(self, table: BoundTable) -> None:
        """Take the columns and the child table."""
        super().bind(table)
        if self.fires:
            self._next = table.fixed(self._name + NEXT)

    def add(self, key: Any) -> None:
        """Add a time."""
        if key in self:
            return
        super().add(key)
        if not self.fires:
            return
        row, time = self._cursor.row, self._kept_key(key)
        self._entries.note(row, time)
        before = self._next[row]
        if before == NO_TIMER or time < before:
            self._cursor.log.write(self._next, row, time)
        if self.set_at_end is not None:
            self.set_at_end.append((row, time))

    def clear(self) -> None:
        """Remove all times."""
        super().clear()
        if self.fires:
            self._cursor.log.write(self._next, self._cursor.row, NO_TIMER)

    def fire(self, row: int, time: int) -> bool:
        """Remove the first time of a row if it is not after ``time``, and return whether it was. This is not logged."""
        first = self._entries.first(row)
        due = first is not None and first <= time
        if due:
            self._drop(row, first)
        self._wait(row)
        return due

    def forget_set(self, row: int) -> int:
        """Remove the times that a row has got at the end of the input; return how many they are. This is not logged."""
        times = {
            time for at, time in self.set_at_end or () if at == row and self._entries.at(row, time)[time] is not GONE
        }
        self.set_at_end = []
        for time in times:
            self._drop(row, time)
        if times:
            self._wait(row)
        return len(times)

    def _drop(self, row: int, time: int) -> None:
        self._entries.at(row, time)[time] = GONE
        self._lengths[row] -= 1

    def _wait(self, row: int) -> None:
        first = self._entries.first(row)
        self._next[row] = NO_TIMER if first is None else first

    def __repr__(self) -> str:
        """Spell the times."""
        return f"Timers({self._keys()})"


def arrow_form(value: Any) -> Any:
    """Return a value as Arrow takes it: records and tuples as dicts of their parts."""
    if is_dataclass(value):
        return {part.name: arrow_form(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, tuple):
        return {f"_{place}": arrow_form(each) for place, each in enumerate(value, 1)}
    return value
