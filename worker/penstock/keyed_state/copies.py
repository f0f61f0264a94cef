"""Copies of rows: a cut copies a table's rows a few at a time, while other rows change."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.base.limits import KEY_GROUPS_MAX
from penstock.model.arrays import Bytes, Int32s, Int64s
from penstock.model.kernels import arena
from penstock.model.keys import EncodedKeys

COPIED_ROWS_MAX = 4096  # at once: about a millisecond of the task's thread
COPIED_BYTES_MAX = 4 * 1024 * 1024  # at once, of rows that are large
PART_ROWS = 262_144  # sorted at once: all rows of a large state would not fit in a cache
PART_BYTES_MAX = 32 * 1024 * 1024  # sorted at once, of rows that are large


@dataclass(frozen=True, slots=True)
class RowsCopy:
    """Copied values of n rows, which a snapshot writes. A bytes column is (ends, data, null)."""

    groups: npt.NDArray[np.uint16]
    deleted: npt.NDArray[np.bool_]
    hashes: npt.NDArray[np.uint64]
    keys: EncodedKeys
    values: dict[str, Any]

    @property
    def size_bytes(self) -> int:
        """Return about how much memory the keys and values use."""
        values = (v if isinstance(v, np.ndarray) else v[1] for v in self.values.values())
        return self.keys.data.nbytes + sum(v.nbytes for v in values)


def by_group(copied: RowsCopy, rows_max: int) -> Iterator[RowsCopy]:
    """Yield all rows sorted by key group, ``rows_max`` at a time."""
    order = np.argsort(copied.groups, kind="stable")
    for start in range(0, len(order), rows_max):
        yield _taken(copied, order[start : start + rows_max])


def _taken(copied: RowsCopy, order: npt.NDArray[np.intp]) -> RowsCopy:
    """Return some rows of a copy, in the order given."""
    return RowsCopy(
        copied.groups[order],
        copied.deleted[order],
        copied.hashes[order],
        EncodedKeys(*_taken_spans((copied.keys.ends, copied.keys.data, copied.keys.null), order)),
        {name: _taken_values(values, order) for name, values in copied.values.items()},
    )


def _taken_values(values: Any, order: npt.NDArray[np.intp]) -> Any:
    return values[order] if isinstance(values, np.ndarray) else _taken_spans(values, order)


def _taken_spans(spans: Any, order: npt.NDArray[np.intp]) -> Any:
    ends, data, null = spans
    starts = ends[order]
    return (*gathered(data, starts, ends[order + 1] - starts), null[order])


def gathered(data: Bytes, starts: Int64s, sizes: npt.NDArray[Any]) -> tuple[Int64s, Bytes]:
    """Copy n values of any length out of ``data``: their ends (n + 1), and their bytes."""
    ends = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    target = np.empty(ends[-1], np.uint8)
    arena.gather_bytes(data, starts, ends, target)
    return ends, target


class CutRows:
    """The rows of one cut: the rows still to be copied, the copies, and those that are made when they are written.

    A cut has the changed rows, or all rows of the table (``whole``). The task's thread copies them.
    The thread that writes them waits until nothing is :attr:`left`.
    """

    def __init__(self, rows: Int32s | range, none: RowsCopy) -> None:
        """Begin with the row numbers of a cut, a range for all; ``none`` is a copy of no row."""
        self.whole = isinstance(rows, range)
        self._rows = rows
        self._at = 0
        self._copies = [none]
        self._later: list[Iterator[RowsCopy]] = []
        self._later_groups: set[int] = set()

    @property
    def left(self) -> int:
        """Return how many rows were not handled yet."""
        return len(self._rows) - self._at

    def next(self, most: int) -> Int32s:
        """Return the next rows to handle."""
        rows = self._rows[self._at : self._at + most]
        self._at += len(rows)
        return np.arange(rows.start, rows.stop, dtype=np.int32) if isinstance(rows, range) else rows

    def add(self, copied: RowsCopy) -> None:
        """Keep a copy of some rows. Each row of the cut must be in one such copy."""
        self._copies.append(copied)

    def add_later(self, groups: set[int], copies: Iterator[RowsCopy]) -> None:
        """Add copies that are made as they are written. ``groups`` are the key groups of their rows."""
        self._later.append(copies)
        self._later_groups |= groups

    def groups(self) -> list[int]:
        """List the key groups of the rows, once all are copied."""
        self._assert_copied()
        found = np.zeros(KEY_GROUPS_MAX, np.bool_)
        for copied in self._copies:
            found[copied.groups] = True
        found[list(self._later_groups)] = True
        groups: list[int] = np.flatnonzero(found).tolist()
        return groups

    def parts(self) -> Iterator[RowsCopy]:
        """Yield the copies, joined to larger parts, and release them. Call it once, on any thread."""
        self._assert_copied()
        return self._parts()

    def _assert_copied(self) -> None:
        assert not self.left, f"{self.left} rows of a cut are not copied"
        assert self._copies, "the copies were given away"

    def _parts(self) -> Iterator[RowsCopy]:
        copies, self._copies = self._copies[::-1], []
        later, self._later = self._later, []
        yield from _joined_parts(chain(_popped(copies), *later))


def _popped(copies: list[RowsCopy]) -> Iterator[RowsCopy]:
    """Yield copies from the last to the first, and release each."""
    while copies:
        yield copies.pop()


def _joined_parts(copies: Iterator[RowsCopy]) -> Iterator[RowsCopy]:
    part: list[RowsCopy] = []
    rows = size = 0
    for copied in copies:
        part.append(copied)
        rows += len(copied.groups)
        size += copied.size_bytes
        if rows >= PART_ROWS or size >= PART_BYTES_MAX:
            whole, part = part, []
            rows = size = 0
            yield joined(whole)
    if part:
        yield joined(part)


def joined(copies: Sequence[RowsCopy]) -> RowsCopy:
    """Concatenate copies of rows of one table."""
    if len(copies) == 1:
        return copies[0]
    first = copies[0]
    spans = [(c.keys.ends, c.keys.data, c.keys.null) for c in copies]
    return RowsCopy(
        np.concatenate([c.groups for c in copies]),
        np.concatenate([c.deleted for c in copies]),
        np.concatenate([c.hashes for c in copies]),
        EncodedKeys(*_joined_spans(spans)),
        {name: _joined_values([c.values[name] for c in copies]) for name in first.values},
    )


def _joined_values(values: Sequence[Any]) -> Any:
    return np.concatenate(values) if isinstance(values[0], np.ndarray) else _joined_spans(values)


def _joined_spans(spans: Sequence[Any]) -> Any:
    before = np.cumsum([0, *(ends[-1] for ends, _, _ in spans)])
    ends = [spans[0][0][:1], *(e[1:] + b for (e, _, _), b in zip(spans, before, strict=False))]
    return (
        np.concatenate(ends),
        np.concatenate([data for _, data, _ in spans]),
        np.concatenate([null for _, _, null in spans]),
    )
