"""Bounds the size of one read: a row may have any size, but an element may not."""

import pyarrow as pa

from penstock.base import limits


def head(batch: pa.RecordBatch, rows: int) -> pa.RecordBatch:
    """Return the first rows of a batch: at most ``rows``, and at most ``SOURCE_READ_BYTES_MAX``.

    Returns at least one row, however large. Rows are assumed to have about equal sizes; otherwise
    the piece is halved until it fits.
    """
    piece = batch if batch.num_rows <= rows else batch.slice(0, rows)
    if piece.get_total_buffer_size() <= limits.SOURCE_READ_BYTES_MAX:
        return piece  # the size of whole buffers is enough, at a tenth of the cost of nbytes
    while piece.num_rows > 1 and piece.nbytes > limits.SOURCE_READ_BYTES_MAX:
        share = piece.num_rows * limits.SOURCE_READ_BYTES_MAX // piece.nbytes
        piece = piece.slice(0, max(1, min(share, piece.num_rows // 2)))
    return piece
