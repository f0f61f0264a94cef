"""Lines of a text file in blocks, from any byte on: plain, or packed by gzip or Zstandard.

A line ends with ``\\n`` or ``\\r\\n``; the last one may lack it. Lines of white space only are no rows. A
position is a byte of the unpacked text: a plain file is opened there, a packed one is unpacked up to it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.errors import StateError
from penstock.base.limits import TEXT_BLOCK_BYTES, TEXT_LINE_BYTES_MAX
from penstock.base.values import replace
from penstock.connectors.input_files import InputPath

PACKED = {".gz": "gzip", ".zst": "zstd"}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NEWLINE, SPACE = ord("\n"), ord(" ")


@dataclass(frozen=True, slots=True)
class LinePlace:
    """Where a line begins: its byte in the unpacked text (from 0 on), and its number (from 1 on)."""

    byte: int = 0
    line: int = 1


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive lines that are rows, with the place of each; ``end`` is the place behind all lines.

    ``lines`` is a large_binary array. Each value has its line end. The places are arrays of int64.
    """

    lines: pa.Array
    bytes_at: np.ndarray
    lines_at: np.ndarray
    end: LinePlace

    def place(self, row: int) -> LinePlace:
        """Return where row ``row`` begins; behind the last one, where the block ends."""
        if row >= len(self.lines):
            return self.end
        return LinePlace(int(self.bytes_at[row]), int(self.lines_at[row]))


def blocks(path: InputPath, begin: LinePlace) -> Iterator[Block]:
    """Give the lines of a file from ``begin`` on.

    Raises StateError for a line that is too long. Raises OSError and ArrowInvalid.
    """
    with _opened(path, begin.byte) as file:
        rest, place = b"", begin
        while data := file.read(TEXT_BLOCK_BYTES):
            text = rest + bytes(data)
            cut = text.rfind(b"\n") + 1
            if not cut and len(text) > TEXT_LINE_BYTES_MAX:
                raise StateError(
                    f"file {path}, line {place.line}: it is longer than {TEXT_LINE_BYTES_MAX:,} bytes: "
                    "is it a file of lines?"
                )
            rest = text[cut:]
            if cut:
                block = split_lines(text[:cut], place)
                place = block.end
                yield block
        if rest:
            yield split_lines(rest, place)


def _opened(path: InputPath, byte: int) -> pa.NativeFile:
    packed = PACKED.get(path.suffix)
    file = pa.OSFile(str(path), "rb") if isinstance(path, Path) else pa.PythonFile(path.open("rb"), "r")
    if packed is None:
        file.seek(byte)
        return file
    stream = pa.CompressedInputStream(file, packed)
    left = byte
    while left:
        passed = len(stream.read(min(left, TEXT_BLOCK_BYTES)))
        if not passed:
            raise StateError(f"file {path}: its text ends at byte {byte - left} of {byte}: it was rewritten")
        left -= passed
    return stream


def split_lines(text: bytes, begin: LinePlace) -> Block:
    """Split whole lines. Rows are the lines that are not empty. Their array shares the memory of ``text``."""
    if not text.endswith(b"\n"):
        return _without_end(split_lines(text + b"\n", begin))
    data = np.frombuffer(text, np.uint8)
    bounds = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(data == NEWLINE) + 1))
    places = begin.byte + bounds[:-1]
    numbers = begin.line + np.arange(len(places), dtype=np.int64)
    end = LinePlace(begin.byte + len(text), begin.line + len(places))
    if begin.byte == 0 and text.startswith(BYTE_ORDER_MARK):
        bounds[0] = len(BYTE_ORDER_MARK)
    lines = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(places), [None, pa.py_buffer(bounds), pa.py_buffer(text)]
    )
    if not np.any(data[bounds[:-1]] <= SPACE):  # no line is of white space only
        return Block(lines, places, numbers, end)
    filled = pc.greater(pc.binary_length(pc.ascii_trim_whitespace(as_text(lines))), 0).to_numpy(zero_copy_only=False)
    return Block(lines.filter(pa.array(filled)), places[filled], numbers[filled], end)


def _without_end(block: Block) -> Block:
    """Return a block whose last line got an end that its file does not have."""
    return replace(block, end=LinePlace(block.end.byte - 1, block.end.line))


def as_text(values: pa.Array) -> pa.Array:
    """See bytes as text without a look at them: functions that trim ASCII do not decode."""
    return pa.LargeStringArray.from_buffers(
        len(values), values.buffers()[1], values.buffers()[2], values.buffers()[0], values.null_count, values.offset
    )
