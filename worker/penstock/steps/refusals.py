"""Rows that a batch function refuses itself, without an exception and without a further call.

A function that gets all rows of a batch at once often knows which of them are bad. It then returns a
:class:`Refusing` instead of its usual result. A refused row is treated like a row for which a
function raised: ``on_error`` of the step decides.
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
from penstock.model.arrays import flat

Values = TypeVar("Values", pa.Array, pa.RecordBatch)
Reason: TypeAlias = str | pa.Array | pa.ChunkedArray


class RefusedError(Exception):
    """Says why a function refused a row. Users see only its text."""


@dataclass(frozen=True, slots=True)
class Refusing:
    """The result of a batch function that refuses some rows of its batch.

    ``given`` is the usual result of the function. A map and a filter return a value for every row of
    the batch, and values of refused rows are dropped. A flat map and a ``process`` must leave
    refused rows out of their result and of their state.

    ``refused`` has one boolean for each row of the batch (an array of Arrow or numpy). Null is false.

    ``reason`` is one text for all refused rows, or an array of texts, one for each row of the batch.
    """

    given: Any
    refused: pa.Array | pa.ChunkedArray | npt.NDArray[np.bool_]
    reason: Reason

    def __bool__(self) -> bool:
        """Raise TypeError: a filter per record must return a bool, and raise for a bad record."""
        raise TypeError("ps.Refusing is for functions per batch; per record, raise an exception")


@dataclass(frozen=True, slots=True)
class Refusals:
    """The rows that one call refused, in ascending order, and why."""

    rows: tuple[int, ...] = ()
    reason: Reason = ""

    def first(self) -> RefusedError:
        """Return the reason of the first refused row."""
        return RefusedError(self._text(self.rows[0]))

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Yield each refused row, counted from the first row of the call, with its reason.

        The reason is a text of bounded length.
        """
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


def split_refusals(given: Any, rows: int) -> tuple[Any, Refusals]:
    """Return the usual result of a function, and its refusals, for a batch of ``rows`` rows.

    Raises TypeError if the refusals do not fit the batch.
    """
    if not isinstance(given, Refusing):
        return given, NONE
    mask, reason = given.refused, given.reason
    mask = bools_of(mask)
    if not pa.types.is_boolean(mask.type) or len(mask) != rows:
        raise TypeError(f"refused has {len(mask)} values of {mask.type}; it must have {rows} booleans")
    if not mask.true_count:
        return given.given, NONE
    if not isinstance(reason, str):
        _check_reasons(reason, rows)
    return given.given, Refusals(tuple(pc.indices_nonzero(mask).to_pylist()), reason)


def bools_of(given: Any) -> pa.Array:
    """Return one array of what a function gives: an array of Arrow or NumPy, or a list. Masked values are null."""
    if isinstance(given, pa.Array | pa.ChunkedArray):
        return flat(given)
    return pa.array(given if isinstance(given, np.ndarray) else np.asarray(given))


def _check_reasons(reason: Any, rows: int) -> None:
    """Raise TypeError if there is not one text for each row."""
    if not isinstance(reason, pa.Array | pa.ChunkedArray):
        raise TypeError(f"reason is {type(reason).__name__}; it must be a text, or a text for each row")
    texts = pa.types.is_string(reason.type) or pa.types.is_large_string(reason.type)
    if len(reason) != rows or not texts:
        raise TypeError(f"reason has {len(reason)} values of {reason.type}; it must have {rows} texts")


def without_rows(values: Values, rows: Sequence[int]) -> Values:
    """Return the values without those of ``rows``, which are in ascending order."""
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
