"""Decides which batches to pack (compress): by the entropy of a sample, and by measured speed.

    none   never
    lz4    when rows look compressible: the entropy of a sample is below the threshold
    auto   when rows look compressible and packed rows are sent faster than plain ones

``auto`` measures. It sends packed or plain, and now and then tries the other for a while: soon after
rows begin to flow, and less and less often while nothing changes. A rate counts the time to pack, to
write, and to wait for credit. If packing a sample takes longer than sending as many bytes, no trial
is made.
"""

import numpy as np
import pyarrow as pa

from penstock.base.limits import (
    COMPRESSION_AUTO_BATCH_BYTES_MIN,
    COMPRESSION_BATCH_BYTES_MIN,
    COMPRESSION_RATE_BYTES,
    COMPRESSION_SAMPLE_BYTES,
    COMPRESSION_SAMPLE_EVERY_BYTES,
    COMPRESSION_SKIPPED_BYTES,
    COMPRESSION_STALLED_BYTES_PER_S,
    COMPRESSION_TRY_AFTER_BYTES,
    COMPRESSION_TRY_AFTER_BYTES_MAX,
    COMPRESSION_TRY_AFTER_S_MAX,
    COMPRESSION_TRY_BYTES,
    COMPRESSION_TRY_SHARE,
)
from penstock.base.threads import thread_time
from penstock.contract.settings import CompressionMode, CompressionSettings

_BETTER = 1.05  # a trial must be this much faster: less is noise, or not worth the processor time
_LATER = 4  # after a trial without gain, the next one comes after this many times as many bytes


class Rate:
    """A moving average of bytes per second, over about COMPRESSION_RATE_BYTES."""

    __slots__ = ("_bytes", "_seconds")

    def __init__(self) -> None:
        self._bytes = self._seconds = 0.0

    def count(self, size: int, seconds: float) -> None:
        """Count ``size`` bytes that took ``seconds``."""
        keep = COMPRESSION_RATE_BYTES / (COMPRESSION_RATE_BYTES + size)
        self._bytes = keep * self._bytes + size
        self._seconds = keep * self._seconds + seconds

    @property
    def bytes_per_s(self) -> float:
        """The present rate; 0 before anything was counted."""
        return self._bytes / self._seconds if self._seconds else 0.0


class Packing:
    """Decides for the batches of one channel. Call ``packs`` before a batch, ``sent`` after it."""

    def __init__(self, settings: CompressionSettings) -> None:
        self._settings = settings
        self._mode = settings.mode
        self._bytes_min = COMPRESSION_BATCH_BYTES_MIN
        if self._mode is CompressionMode.AUTO:
            self._bytes_min = COMPRESSION_AUTO_BATCH_BYTES_MIN
        self._sampled_in = 0  # bytes until the entropy is measured again
        self._compressible = False
        self._asked = 0  # bytes of the batch that is being sent; 0: it is not measured
        self._prefers_packed = False
        self._trying = False  # whether a trial of the other form is under way
        self._pause = self._left = COMPRESSION_TRY_AFTER_BYTES
        self._left_s = COMPRESSION_TRY_AFTER_S_MAX
        self._skipped = COMPRESSION_SKIPPED_BYTES
        self._rate = Rate()
        self._tried = Rate()

    def packs(self, batch: pa.RecordBatch, size: int) -> bool:
        """Return whether to pack the next batch; ``size`` is its charge in bytes."""
        self._asked = 0
        if self._mode is CompressionMode.NONE:
            return False
        if size < self._bytes_min or not self._compresses(batch, size):
            return False
        if self._mode is CompressionMode.LZ4:
            return True
        if self._left <= 0 or (self._left_s <= 0 and not self._trying and self._rate.bytes_per_s):
            self._begin_or_end_trial(batch)
        self._asked = size
        return self._prefers_packed != self._trying

    def sent(self, seconds: float) -> None:
        """Count the time for the batch: to wait for credit, to pack and to write."""
        size = self._asked
        if not size:
            return
        seconds = min(seconds, size / COMPRESSION_STALLED_BYTES_PER_S)
        self._left_s -= seconds
        if self._skipped > 0:
            self._skipped -= size
        else:
            self._left -= size
            (self._tried if self._trying else self._rate).count(size, seconds)

    def _compresses(self, batch: pa.RecordBatch, size: int) -> bool:
        self._sampled_in -= size
        if self._sampled_in <= 0:
            self._sampled_in = COMPRESSION_SAMPLE_EVERY_BYTES
            self._compressible = entropy_bits(sample_of(batch)) <= self._settings.entropy_threshold
        return self._compressible

    def _begin_or_end_trial(self, batch: pa.RecordBatch) -> None:
        """Begin or end a trial of the other form."""
        self._skipped = COMPRESSION_SKIPPED_BYTES
        if not self._trying and self._may_gain(batch):
            self._trying, self._tried = True, Rate()
            self._left, self._left_s = COMPRESSION_TRY_BYTES, 0.0
            return
        if self._trying and self._tried.bytes_per_s > _BETTER * self._rate.bytes_per_s:
            self._prefers_packed, self._rate = not self._prefers_packed, self._tried
            self._pause = COMPRESSION_TRY_AFTER_BYTES
        else:
            self._pause = min(_LATER * self._pause, COMPRESSION_TRY_AFTER_BYTES_MAX)
        tried_s = -self._left_s if self._trying else 0.0
        self._left_s = max(COMPRESSION_TRY_AFTER_S_MAX, COMPRESSION_TRY_SHARE * tried_s)
        self._trying, self._left = False, self._pause

    def _may_gain(self, batch: pa.RecordBatch) -> bool:
        return self._prefers_packed or packed_per_s(sample_of(batch)) > self._rate.bytes_per_s


def sample_of(batch: pa.RecordBatch) -> bytes:
    """Return up to COMPRESSION_SAMPLE_BYTES of the batch: the same share of each buffer.

    The buffers of a slice are at most twice as large as the slice (``transport.batches``).
    """
    buffers = [b for c in batch.columns for b in c.buffers() if b is not None and b.size]
    share = min(COMPRESSION_SAMPLE_BYTES / max(sum(b.size for b in buffers), 1), 1.0)
    return b"".join(b.slice(0, int(share * b.size)).to_pybytes() for b in buffers)


def entropy_bits(sample: bytes) -> float:
    """Return the Shannon entropy of the bytes of a sample: 0 (all equal) to 8 bits per byte."""
    if not sample:
        return 0.0
    counts = np.bincount(np.frombuffer(sample, np.uint8), minlength=256)
    shares = counts[counts > 0] / len(sample)
    return float(-(shares * np.log2(shares)).sum())


def packed_per_s(sample: bytes) -> float:
    """Return how many bytes of the sample LZ4 compresses in a second of processor time."""
    start = thread_time()
    pa.compress(sample, codec="lz4_raw", asbytes=True)
    return len(sample) / max(thread_time() - start, 1e-6)
