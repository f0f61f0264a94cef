"""Columns of texts in compiled code: lines are split into words, small batches are appended."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.model.arrays import Int32s, flat, text, variable_array
from penstock.model.kernels import routing, strings


@dataclass(frozen=True, slots=True)
class Words:
    """All words of a batch in order: ``parents[i]`` is the row of word i.

    ``counts[r]`` is how many words row r has.
    """

    words: pa.Array
    counts: Int32s
    parents: Int32s


def split_words(lines: pa.Array | pa.ChunkedArray) -> Words:
    """Split n lines at every space.

    A null line and ``''`` give no word; between two adjacent spaces is an empty word. Takes string
    or large_string, sliced, chunked or dictionary, and gives a string array. Raises ConfigError for
    other types.
    """
    array = flat(lines)
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        raise ConfigError(f"only text can be split into words, not a column of type {array.type}")
    lines_in = text(array)
    counts = np.empty(len(array), np.int32)
    total = strings.count_words(lines_in, counts)
    ends = np.empty(total + 1, np.int32)
    parents = np.empty(total, np.int32)
    offsets = lines_in[0]
    letters = np.empty(int(offsets[-1] - offsets[0]) + strings.COPY_SLACK, np.uint8)
    strings.cut_words(lines_in, counts, ends, letters, parents)
    return Words(variable_array(pa.string(), ends, letters[: ends[-1]]), counts, parents)


def appended(array: pa.Array, batch_rows: int) -> pa.Array:
    """Return a copy of a text array, made by appending ``batch_rows`` rows at a time.

    This is what a client does that takes small messages off the network. ``array`` has no nulls.
    """
    assert array.null_count == 0, "nulls are not appended"
    column, rows = text(array), len(array)
    size = int(column[0][rows] - column[0][0])
    ends, block = np.empty(rows + 1, np.int32), pa.allocate_buffer(size + routing.COPY_SLACK)
    routing.append_texts(column, batch_rows, ends, block.address)
    return pa.Array.from_buffers(array.type, rows, [None, pa.py_buffer(ends), block.slice(0, size)])
