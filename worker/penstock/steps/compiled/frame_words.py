"""The frame of a compiled loop: an int64 array with all addresses and numbers that the loop needs.

The loop gets the address of the frame. The first words are HEADER. Behind them is a word for each
:class:`FrameWord` that the function uses, in the order in which the compiler met them. Only these
columns are prepared for a batch.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PLACE: Final = 0  # the row to begin with; when the loop returns, the row that it stopped at
ROWS: Final = 1  # rows of the batch
LOG: Final = 2  # address of the undo log
LOG_ROOM: Final = 3  # entries that the log can hold
STATE_ROWS: Final = 4  # address of the state rows (int32) of the batch
HEADER: Final = 5

LOG_WORDS: Final = 3  # of an entry: address, the bytes before, how many bytes

DONE: Final = 0
AGAIN: Final = 1  # the record at PLACE was undone; Python runs it
NO_ROOM: Final = 2  # the record at PLACE was undone; make more room, and repeat it
LOG_FULL: Final = 3  # the same, for the undo log


class Side(StrEnum):
    """Whose memory a slot is about."""

    RECORD = "record"
    STATE = "state"
    OUT = "out"


class ColumnPart(StrEnum):
    """What a slot has of a column. All are addresses but BIT, and those of OUT that are counted."""

    VALUES = "values"
    OFFSETS = "offsets"  # int32
    BYTES = "bytes"
    VALID = "valid"  # record: the bitmap, or 0 if all are valid; out: a byte for each row
    BIT = "bit"  # of the bitmap, for row 0
    USED = "used"  # of an output: rows; of a column of texts: bytes
    ROOM = "room"  # of the same
    ROW = "row"  # of an output: the row of the record that emitted each row (int32)


@dataclass(frozen=True, slots=True)
class FrameWord:
    """A word of the frame. ``output`` is the name of an output, or empty. ``column`` is a path with dots."""

    side: Side
    column: str
    part: ColumnPart
    output: str = ""
