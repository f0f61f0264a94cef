"""Whether a stream is worth compressing: entropy of a sample, and a trial of LZ4 on it.

A Flight stream has one codec from its first batch to its end, so the choice is made once, from
the first batch that is sent.
"""

from dataclasses import dataclass
from time import perf_counter

import numpy as np
import pyarrow as pa

from penstock.base.limits import COMPRESSION_SAMPLE_BYTES
from penstock.base.settings import CompressionMode, CompressionSettings

CODEC = "lz4"


@dataclass(frozen=True, slots=True)
class Trial:
    """What LZ4 did to a sample: compressed size over size, and bytes taken in per second."""

    ratio: float
    bytes_per_s: float


def sample_of(batch: pa.RecordBatch) -> bytes:
    """Return up to COMPRESSION_SAMPLE_BYTES of the batch's buffers, a share of each column."""
    buffers = [b for c in batch.columns for b in c.buffers() if b is not None and b.size]
    if not buffers:
        return b""
    share = max(COMPRESSION_SAMPLE_BYTES // len(buffers), 1)
    return b"".join(b.slice(0, min(share, b.size)).to_pybytes() for b in buffers)


def entropy_bits(sample: bytes) -> float:
    """Return the Shannon entropy of the bytes of a sample: 0 (all equal) to 8 bits per byte."""
    if not sample:
        return 0.0
    counts = np.bincount(np.frombuffer(sample, np.uint8), minlength=256)
    shares = counts[counts > 0] / len(sample)
    return float(-(shares * np.log2(shares)).sum())


def trial(sample: bytes) -> Trial:
    """Compress a sample once and measure it."""
    if not sample:
        return Trial(1.0, float("inf"))
    start = perf_counter()
    size = len(pa.compress(sample, codec="lz4_raw", asbytes=True))
    return Trial(size / len(sample), len(sample) / max(perf_counter() - start, 1e-9))


def gains(measured: Trial, link_bytes_per_s: float) -> bool:
    """Say whether compressing and sending less takes less time than sending all."""
    compressed = 1 / measured.bytes_per_s + measured.ratio / link_bytes_per_s
    return compressed < 1 / link_bytes_per_s


def choose(
    settings: CompressionSettings, batch: pa.RecordBatch, link_bytes_per_s: float
) -> str | None:
    """Return the codec of a stream that begins with ``batch``, or None for plain bytes.

    ``lz4`` compresses below the entropy threshold; ``auto`` also asks for a gain in time on a
    link of the given speed.
    """
    if settings.mode is CompressionMode.NONE:
        return None
    sample = sample_of(batch)
    if entropy_bits(sample) > settings.entropy_threshold:
        return None
    if settings.mode is CompressionMode.AUTO and not gains(trial(sample), link_bytes_per_s):
        return None
    return CODEC
