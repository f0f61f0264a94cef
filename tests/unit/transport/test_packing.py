"""What makes a batch travel packed: entropy, and what was measured of packing and the link."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest

from penstock.base import limits
from penstock.contract.settings import CompressionMode, CompressionSettings
from penstock.transport import batches
from penstock.transport.batches import Packing, Rate, entropy_bits, packed_per_s, sample_of

NOISE = np.random.default_rng(7).bytes(256 * 1024)
DULL = pa.record_batch([["the same words " * 4] * 5000], names=["w"])
RANDOM = pa.record_batch([pa.array([NOISE])], names=["w"])
SMALL = DULL.slice(0, 100)
TINY = DULL.slice(0, 1)
MIB = 1024 * 1024


def packing(mode: CompressionMode) -> Packing:
    return Packing(CompressionSettings(mode))


@dataclass
class Channel:
    """Sends batches as a stream does; packing halves them."""

    link: float  # bytes per second
    packs: float = 500.0 * MIB
    buffer: float = 0.0  # bytes that a write may leave behind for the link
    packing: Packing = field(default_factory=lambda: packing(CompressionMode.AUTO))
    waiting: float = 0.0
    seconds: float = 0.0

    def send(self, batch: pa.RecordBatch) -> bool:
        size = batch.nbytes
        packed = self.packing.packs(batch, size)
        seconds = size / self.packs if packed else 0.0
        self.waiting = max(0.0, self.waiting - seconds * self.link)
        self.waiting += size / 2 if packed else size
        if self.waiting > self.buffer:
            seconds += (self.waiting - self.buffer) / self.link
            self.waiting = self.buffer
        self.packing.sent(seconds)
        self.seconds += seconds
        return packed

    def share(self, megabytes: int) -> float:
        """Return the share of the next batches, of so many MiB together, that is packed."""
        sent = [self.send(DULL) for _ in range(megabytes * MIB // DULL.nbytes)]
        return sum(sent) / len(sent)


@pytest.fixture
def promising(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a sample promise a gain on any link: what is measured has to decide."""
    monkeypatch.setattr(batches, "packed_per_s", lambda sample: 1e15)


def test_entropy_runs_from_nothing_to_eight_bits() -> None:
    assert entropy_bits(b"") == 0.0
    assert entropy_bits(b"aaaa") == 0.0
    assert entropy_bits(b"abab") == pytest.approx(1.0)
    assert entropy_bits(bytes(range(256))) == pytest.approx(8.0)


def test_a_sample_has_a_bound_and_the_same_share_of_every_column() -> None:
    batch = pa.record_batch([["a" * 100] * 5000, list(range(5000))], names=["w", "n"])
    sample = sample_of(batch)
    assert len(sample) <= limits.COMPRESSION_SAMPLE_BYTES
    assert 0.8 < sample.count(b"a") / len(sample) < 0.95  # of 112 bytes of a row
    assert (500).to_bytes(8, "little") in sample
    assert sample_of(pa.record_batch([pa.nulls(3)], names=["n"])) == b""


def test_a_rate_follows_what_was_sent_last() -> None:
    rate = Rate()
    assert rate.bytes_per_s == 0.0
    rate.count(MIB, MIB / 1e9)
    assert rate.bytes_per_s == pytest.approx(1e9)
    for _ in range(100):
        rate.count(MIB, MIB / 1e8)
    assert rate.bytes_per_s == pytest.approx(1e8, rel=0.1)
    rate.count(MIB, 0.0)  # a buffer took it at once
    assert rate.bytes_per_s == pytest.approx(1e8, rel=0.2)


def test_a_sample_says_how_fast_it_is_packed() -> None:
    assert packed_per_s(b"abc" * 10_000) > 1e7
    assert packed_per_s(b"") == 0.0


@pytest.mark.parametrize(
    ("mode", "batch", "packs"),
    [
        (CompressionMode.NONE, DULL, False),
        (CompressionMode.LZ4, DULL, True),
        (CompressionMode.LZ4, SMALL, True),
        (CompressionMode.LZ4, TINY, False),
        (CompressionMode.LZ4, RANDOM, False),
        (CompressionMode.AUTO, SMALL, False),
        (CompressionMode.AUTO, RANDOM, False),
    ],
)
def test_a_mode_packs(mode: CompressionMode, batch: pa.RecordBatch, packs: bool) -> None:
    asked = packing(mode)
    for _ in range(100):
        assert asked.packs(batch, batch.nbytes) is packs
        asked.sent(0.0)


def test_rows_that_change_are_looked_at_again() -> None:
    asked = packing(CompressionMode.LZ4)
    assert not asked.packs(RANDOM, RANDOM.nbytes)
    rounds = limits.COMPRESSION_SAMPLE_EVERY_BYTES // DULL.nbytes + 1
    asked_for = [asked.packs(DULL, DULL.nbytes) for _ in range(rounds)]
    assert not asked_for[0]
    assert asked_for[-1]


@pytest.mark.usefixtures("promising")
@pytest.mark.parametrize("buffer", [0, 4 * MIB])
def test_auto_packs_where_the_link_is_slower_than_packing(buffer: int) -> None:
    channel = Channel(100.0 * MIB, buffer=buffer)
    assert not channel.send(DULL)
    channel.share(64)
    assert channel.share(4096) > 0.98


@pytest.mark.usefixtures("promising")
def test_auto_does_not_pack_where_that_takes_longer() -> None:
    channel = Channel(2000.0 * MIB)
    assert channel.share(48) > 0  # it has tried
    assert channel.share(4096) < 0.02


@pytest.mark.usefixtures("promising")
def test_auto_follows_a_link_whose_rate_changes() -> None:
    channel = Channel(100.0 * MIB)
    channel.share(64)
    channel.link = 2000.0 * MIB
    channel.share(5000)
    assert channel.share(64) == 0.0
    channel.link = 100.0 * MIB
    channel.share(5000)
    assert channel.share(64) == 1.0


@pytest.mark.usefixtures("promising")
def test_rows_that_do_not_compress_say_nothing_of_either_way() -> None:
    channel = Channel(100.0 * MIB)
    channel.share(128)
    sent = [channel.send(RANDOM) for _ in range(1000)]  # 250 MiB; looked at after 64 at most
    assert sum(sent) <= 256
    assert not any(sent[256:])
    channel.share(128)  # here, too
    assert channel.share(32) == 1.0


@pytest.mark.usefixtures("promising")
def test_on_a_very_slow_link_a_pause_ends_by_time() -> None:
    channel = Channel(2.0 * MIB, packs=0.5 * MIB)
    assert 0 < channel.share(16 + 16 + 64 + 16) < 0.3  # packing is slower still: twice in vain
    assert channel.share(200) > 0  # the next is due after 256 MiB, or a minute: 120 MiB


@pytest.mark.usefixtures("promising")
def test_a_receiver_that_rests_for_a_minute_changes_nothing() -> None:
    channel = Channel(2000.0 * MIB)
    channel.share(400)  # packing takes longer
    channel.packing.packs(DULL, DULL.nbytes)
    channel.packing.sent(90.0)
    assert channel.share(64) < 0.5
    assert channel.share(3000) < 0.03


@pytest.mark.usefixtures("promising")
def test_trials_on_a_very_slow_link_take_a_twentieth_of_the_time_at_most() -> None:
    channel = Channel(1.2 * MIB)
    channel.share(400)
    begun = channel.seconds
    channel.share(1000)
    packed_s = 1000 / 500.0 + 500 / 1.2
    assert channel.seconds - begun < 1.06 * packed_s


@pytest.mark.usefixtures("promising")
def test_batches_as_large_as_a_trial_are_tried_too() -> None:
    large = pa.record_batch([["the same words " * 4] * 500_000], names=["w"])
    channel = Channel(100.0 * MIB)
    sent = [channel.send(large) for _ in range(20)]
    assert all(sent[-5:])


def test_auto_does_not_even_try_where_packing_a_sample_takes_longer_than_sending() -> None:
    channel = Channel(1e15)
    assert channel.share(256) == 0.0


@pytest.mark.usefixtures("promising")
@pytest.mark.parametrize("link", [50.0, 180.0, 230.0, 300.0, 1000.0])
def test_auto_is_not_much_slower_than_the_better_way(link: float) -> None:
    auto, total = Channel(link * MIB, buffer=4.0 * MIB), 4096
    auto.share(total)
    plain, packed = total / link, total / 500.0 + total / 2 / link
    assert auto.seconds < 1.05 * min(plain, packed) + 0.1
