"""Rows that a batch function refuses by itself: no exception, and no call for them again.

A function that looks at all rows at once often knows which of them are no good. It gives a
:class:`Refusing` then, in the place of what it gives otherwise. What happens to a refused row is what
happens to a row for which a function raised: ``on_error`` of the step decides.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.limits import SLICED_ROWS_MAX
from penstock.base.user_code import named

Values = TypeVar("Values", pa.Array, pa.RecordBatch)
Reason: TypeAlias = str | pa.Array | pa.ChunkedArray


class RefusedError(Exception):
    """Says why a function refused a row. Only its text is ever seen."""


@dataclass(frozen=True, slots=True)
class Refusing:
    """What a batch function gives, with a mark on each row of its batch that it refuses.

    ``given``: what the function gives otherwise. A map and a filter give a value for each row of
    the batch all the same, and those of refused rows are dropped unread. A flat map and a
    ``process`` give nothing of refused rows, and store nothing of them.

    ``refused``: one boolean for each row of the batch (an array of Arrow or numpy); null is false.

    ``reason``: one text for all of them, or an array of texts with one for each row of the batch.
    """

    given: Any
    refused: pa.Array | pa.ChunkedArray | npt.NDArray[np.bool_]
    reason: Reason

    def __bool__(self) -> bool:
        """Raise TypeError: a filter per record gives a truth value, and raises for bad records."""
        raise TypeError("ps.Refusing is for functions per batch; per record, raise an exception")


@dataclass(frozen=True, slots=True)
class Refusals:
    """The rows that one call refused, from the first to the last, and why."""

    rows: tuple[int, ...] = ()
    reason: Reason = ""

    def first(self) -> RefusedError:
        """Return why the first of them was refused."""
        return RefusedError(self._text(self.rows[0]))

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Give each row, counted from the first of the call, with its reason in a bounded text."""
        if isinstance(self.reason, str):
            text = named(RefusedError(self.reason))
            return ((row, text) for row in self.rows)
        return ((row, named(RefusedError(self._text(row)))) for row in self.rows)

    def _text(self, row: int) -> str:
        if isinstance(self.reason, str):
            return self.reason
        text: str | None = self.reason[row].as_py()
        return text or ""


NONE = Refusals()


def parted(given: Any, rows: int) -> tuple[Any, Refusals]:
    """Part what a function gave for ``rows`` rows from its refusals. Raises TypeError."""
    if not isinstance(given, Refusing):
        return given, NONE
    mask, reason = given.refused, given.reason
    mask = mask if isinstance(mask, pa.Array | pa.ChunkedArray) else pa.array(np.asarray(mask))
    if not pa.types.is_boolean(mask.type) or len(mask) != rows:
        raise TypeError(f"it refused by {len(mask)} of {mask.type}, not by {rows} booleans")
    if not mask.true_count:
        return given.given, NONE
    if not isinstance(reason, str):
        _check_reasons(reason, rows)
    return given.given, Refusals(tuple(pc.indices_nonzero(mask).to_pylist()), reason)


def _check_reasons(reason: Any, rows: int) -> None:
    """Raise TypeError when there is not one text for each row."""
    if not isinstance(reason, pa.Array | pa.ChunkedArray):
        raise TypeError(
            f"its reason is {type(reason).__name__}; it must be a text, or one for each row"
        )
    texts = pa.types.is_string(reason.type) or pa.types.is_large_string(reason.type)
    if len(reason) != rows or not texts:
        raise TypeError(f"it gave {len(reason)} reasons of {reason.type} for {rows} rows")


def but(values: Values, rows: Sequence[int]) -> Values:
    """Return the values but for those of some rows, which are in order."""
    if not rows:
        return values
    size = len(values)
    if len(rows) > SLICED_ROWS_MAX:
        kept = np.ones(size, np.bool_)
        kept[list(rows)] = False
        return values.filter(pa.array(kept))
    begins, ends = (0, *(row + 1 for row in rows)), (*rows, size)
    parts = [values.slice(at, end - at) for at, end in zip(begins, ends, strict=True)]
    return pa.concat_arrays(parts) if isinstance(values, pa.Array) else pa.concat_batches(parts)
