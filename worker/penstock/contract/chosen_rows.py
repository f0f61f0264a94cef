"""Steps that choose rows of a key, or of a window: by whether they are new, and by the value of a column."""

from typing import Annotated

from penstock.base import limits
from penstock.contract.codec import Message
from penstock.contract.columns import ColumnName
from penstock.contract.schema import DurationUs, Field


class Distinct(Message, tag="Distinct"):
    """The rows of keys that are no duplicates: the first one, and the next one after ``within``. None: no other one."""

    within_us: Annotated[
        DurationUs | None,
        Field("within", "how long a row makes the next ones duplicates; for ever when left out", minimum="1us"),
    ] = None
    allowed_lateness_us: Annotated[DurationUs, Field("allowedLateness", "how long a key waits for late rows")] = 0


class LatestRow(Message, tag="LatestRow"):
    """The row of each key with the greatest value of a column: one row out each time that it changes."""

    by: Annotated[ColumnName, Field("by", "the column whose greatest value counts: a number, bool, date or time")]


class Top(Message, tag="Top"):
    """The rows of each key with the greatest values of a column: rows that enter and leave them."""

    count: Annotated[int, Field("count", "how many rows are kept for each key", minimum=1, maximum=limits.TOP_ROWS_MAX)]
    by: Annotated[ColumnName, Field("by", "the column whose greatest values count: a number, bool, date or time")]


class WindowTop(Message, tag="WindowTop"):
    """The rows of each window with the greatest values of a column, whatever their key, when the window is over."""

    count: int
    by: str
