"""What a sample says about compressing a stream."""

import numpy as np
import pyarrow as pa
import pytest

from penstock.base.limits import COMPRESSION_SAMPLE_BYTES
from penstock.base.settings import CompressionMode, CompressionSettings
from penstock.model.compression import Trial, choose, entropy_bits, gains, sample_of, trial

NOISE = np.random.default_rng(7).bytes(COMPRESSION_SAMPLE_BYTES)
DULL = pa.record_batch([["the same words " * 4] * 5000], names=["w"])
RANDOM = pa.record_batch([pa.array([NOISE])], names=["w"])
SLOW, FAST = 1e6, 1e15  # bytes per second of a link


def test_entropy_runs_from_nothing_to_eight_bits() -> None:
    assert entropy_bits(b"") == 0.0
    assert entropy_bits(b"aaaa") == 0.0
    assert entropy_bits(b"abab") == pytest.approx(1.0)
    assert entropy_bits(bytes(range(256))) == pytest.approx(8.0)


def test_a_sample_has_a_bound_and_a_share_of_every_column() -> None:
    batch = pa.record_batch([["a" * 100] * 5000, list(range(5000))], names=["w", "n"])
    sample = sample_of(batch)
    assert len(sample) <= COMPRESSION_SAMPLE_BYTES
    assert b"aaaa" in sample
    assert (1000).to_bytes(8, "little") in sample
    assert sample_of(pa.record_batch([pa.nulls(3)], names=["n"])) == b""


def test_a_trial_measures_what_lz4_does() -> None:
    assert trial(b"abc" * 10_000).ratio < 0.1
    assert trial(NOISE).ratio > 0.9
    assert trial(b"").ratio == 1.0


def test_compressing_gains_on_a_link_slower_than_what_it_saves() -> None:
    assert gains(Trial(0.5, 1000.0), 100.0)
    assert not gains(Trial(0.5, 1000.0), 600.0)
    assert not gains(Trial(1.0, 1e12), 1.0)


@pytest.mark.parametrize(
    ("mode", "batch", "link", "codec"),
    [
        (CompressionMode.NONE, DULL, SLOW, None),
        (CompressionMode.LZ4, DULL, FAST, "lz4"),
        (CompressionMode.LZ4, RANDOM, SLOW, None),
        (CompressionMode.AUTO, DULL, SLOW, "lz4"),
        (CompressionMode.AUTO, DULL, FAST, None),
        (CompressionMode.AUTO, RANDOM, SLOW, None),
    ],
)
def test_the_choice(
    mode: CompressionMode, batch: pa.RecordBatch, link: float, codec: str | None
) -> None:
    assert choose(CompressionSettings(mode), batch, link) == codec
