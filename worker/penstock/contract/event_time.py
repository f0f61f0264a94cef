"""Where the time of a source's rows is, and how far rows may be out of order."""

from enum import StrEnum
from typing import Annotated

from penstock.contract.codec import Message
from penstock.contract.columns import ColumnName
from penstock.contract.schema import DurationUs, Field


class TimeUnit(StrEnum):
    """In what a whole number that is a time is counted, from 1970 on in UTC."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"


class EventTime(Message, tag="EventTime"):
    """The time of a row is ``column`` (timestamp, us); rows may come out of order by the bound.

    ``idle_after_us`` lets a source declare a silent split idle; None: it never is. With ``unit`` the
    column has whole numbers in the input, and the source makes it a timestamp.
    """

    column: Annotated[ColumnName, Field("column", "a timestamp[us] column; with unit, of whole numbers")]
    out_of_orderness_us: Annotated[
        DurationUs,
        Field(
            "outOfOrderness",
            "the most by which the time of a row may be below the highest time before it",
        ),
    ] = 0
    idle_after_us: Annotated[
        DurationUs | None,
        Field("idleAfter", "a split that is silent for this long does not hold others back"),
    ] = None
    unit: Annotated[
        TimeUnit | None,
        Field("unit", "in what the column counts from 1970 on; the source gives it as timestamp[us]"),
    ] = None
