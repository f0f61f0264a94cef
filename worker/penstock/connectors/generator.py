"""Words made on the spot: deterministic, seekable, as fast as a slice, or at a fixed rate.

A block of words is drawn once per process; a row is ``block[(start of its split + offset) % rows]``
so any offset is reached at once, and what a split has sent can be counted without running it.
With a rate the loop is open: rows fall due by the clock, and a source that was held back owes
them all the same (``due_ns`` is when a row should have been sent, for latency without omission).
"""

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base import limits
from penstock.base.errors import ConfigError, StateError
from penstock.connectors.bounded import head
from penstock.connectors.rate_limit import RateLimit
from penstock.contract.codec import parsed
from penstock.contract.connectors import WordsSpec
from penstock.contract.ids import Epoch, SplitId
from penstock.contract.manifest import SplitState
from penstock.ports import Read

SCHEMA = pa.schema([pa.field("word", pa.string(), nullable=False)])
LETTERS = 26
SYMBOLS_MIN, SYMBOLS_MAX = 2, 94  # of the printable characters of ASCII
DRAWS_PER_KEY = 16
DRAWS_MIN = 65_536
DRAWS_MAX = 4_194_304  # many keys: a block is made each time a process starts, so it stays small
DISTRIBUTIONS = ("uniform", "zipf")
Integers = np.ndarray[Any, np.dtype[np.int64]]


_DEFAULTS = WordsSpec()


class WordSource:
    """A source of generated words."""

    schema = SCHEMA

    def __init__(self, spec: WordsSpec) -> None:
        """Check the spec. Raises ConfigError saying which option does not fit."""
        _check(spec)
        self.spec = spec
        self.bounded = spec.rows is not None
        self._block: WordBlock | None = None

    def splits(self) -> list[SplitState]:
        """List the splits; the spec is part of the state."""
        return [self._first_state(index) for index in range(self.spec.splits)]

    def _first_state(self, index: int) -> SplitState:
        text = json.dumps({"index": index, **asdict(self.spec)}, sort_keys=True)
        return SplitState(SplitId(f"words-{index:05d}"), text, 0, finished=self.spec.rows == 0)

    def open(self, state: SplitState) -> "WordReader":
        """Open a split. Raises StateError when the checkpoint is of other words.

        Rows and rate may differ: they change how far and how fast, not which words.
        """
        stored = parsed(state.spec)
        for name in ("seed", "payload", "keys", "symbols", "distribution", "exponent"):
            now = getattr(self.spec, name)
            before = stored.get(name, getattr(_DEFAULTS, name))  # older than the option
            if before != now:
                raise StateError(
                    f"generator: the checkpoint has {name}={before}, the job {now}:"
                    " offsets would mean other words"
                )
        return WordReader(self._drawn(), stored["index"], state, RateLimit(self.spec.rate))

    def prepare(self) -> None:
        """Draw the block: a second for a million words."""
        self._drawn()

    def _drawn(self) -> "WordBlock":
        if self._block is None:
            self._block = WordBlock(self.spec)
        return self._block


class WordBlock:
    """The drawn words: ``indices[row]`` is a place in ``words``, ``batch`` the rows themselves."""

    def __init__(self, spec: WordsSpec) -> None:
        """Draw the block; takes a moment for millions of keys."""
        self.spec = spec
        self.words = dictionary(spec)
        self.indices = draw(spec)
        column = self.words.take(pa.array(self.indices))
        self.batch = pa.RecordBatch.from_arrays([column], schema=SCHEMA)

    def start_of(self, split: int) -> int:
        """Return where in the block a split begins: splits are spread over it."""
        return split * len(self.indices) // self.spec.splits

    def counts(self, split: int, rows: int) -> Integers:
        """Count each word (by its place in ``words``) in the first ``rows`` rows of a split."""
        turned = np.roll(self.indices, -self.start_of(split))
        turns, rest = divmod(rows, len(turned))
        whole = np.bincount(turned, minlength=self.spec.keys)
        return whole * turns + np.bincount(turned[:rest], minlength=self.spec.keys)


class WordReader:
    """Reads one split: slices of the block, when they are due."""

    def __init__(self, block: WordBlock, index: int, state: SplitState, pace: RateLimit) -> None:
        """Go on at ``state.offset``; its row is the first of the pace."""
        self._block = block
        self._start = block.start_of(index)
        self._state = state
        self._offset = self._first = state.offset
        self._end = block.spec.rows
        self._pace = pace

    def read(self, max_rows: int) -> Read | None:
        """Return the rows that are due, at most ``max_rows``, or None."""
        batch = self._next(max_rows)
        return None if batch is None else self._sent(batch)

    def gather(self, batch_rows: int, batches: int) -> Read | None:
        """Return up to ``batches`` reads as one: each is copied behind the one before."""
        batch = self._next(batch_rows * batches)
        if batch is None:
            return None
        from penstock.model.append import appended  # noqa: PLC0415 - loads numba

        column = appended(batch.column(0), batch_rows)
        return self._sent(pa.RecordBatch.from_arrays([column], schema=SCHEMA))

    def _next(self, max_rows: int) -> pa.RecordBatch | None:
        left = max_rows if self._end is None else min(max_rows, self._end - self._offset)
        rows = self._pace.allow(left) if left > 0 else 0
        if rows <= 0:
            return None
        total = self._block.batch.num_rows
        start = (self._start + self._offset) % total
        return head(self._block.batch.slice(start, min(rows, total - start)), rows)

    def _sent(self, batch: pa.RecordBatch) -> Read:
        offset = self._offset
        self._offset += batch.num_rows
        self._pace.sent(batch.num_rows)
        return Read(batch, offset)

    def state(self) -> SplitState:
        """Return where the next read begins."""
        ended = self._end is not None and self._offset >= self._end
        return SplitState(self._state.split, self._state.spec, self._offset, finished=ended)

    def due_ns(self, offset: int) -> int | None:
        """Return the monotonic time at which a row was to be sent; None without a rate."""
        return self._pace.due_ns(offset - self._first)

    def wait_s(self) -> float:
        """Return how long to wait for the next rows."""
        return self._pace.wait_s()

    def committed(self, epoch: Epoch, state: SplitState) -> None:
        """Nothing to acknowledge: the words can be made again."""

    def close(self) -> None:
        """Nothing to release."""


def _check(spec: WordsSpec) -> None:
    if spec.distribution not in DISTRIBUTIONS:
        choices = " or ".join(DISTRIBUTIONS)
        raise ConfigError(f"generator: distribution {spec.distribution!r} is not {choices}")
    if not SYMBOLS_MIN <= spec.symbols <= SYMBOLS_MAX:
        raise ConfigError(
            f"generator: symbols {spec.symbols} is not in {SYMBOLS_MIN} to {SYMBOLS_MAX}"
        )
    if spec.symbols**spec.payload < spec.keys:
        raise ConfigError(
            f"generator: {spec.payload} letters of {spec.symbols} do not make {spec.keys} words"
        )
    size = block_rows(spec.keys) * spec.payload
    if size > limits.GENERATOR_BLOCK_BYTES_MAX:
        raise ConfigError(
            f"generator: {spec.keys} keys of {spec.payload} bytes need a block of {size} bytes, and"
            f" at most {limits.GENERATOR_BLOCK_BYTES_MAX} are made: take fewer or shorter ones"
        )


def block_rows(keys: int) -> int:
    """Return how many words are drawn of so many: each often, or, of very many, each once."""
    return max(DRAWS_MIN, min(DRAWS_PER_KEY * keys, DRAWS_MAX), keys)


def dictionary(spec: WordsSpec) -> pa.Array:
    """Make the words: first the digits of their number in letters, then letters by the seed."""
    random = np.random.Generator(np.random.PCG64([spec.seed, 0]))
    base = spec.symbols
    letters = random.integers(0, base, (spec.keys, spec.payload), dtype=np.uint8)
    number = np.arange(spec.keys)
    place = 0
    while place < spec.payload and base**place < spec.keys:
        letters[:, place] = number // base**place % base
        place += 1
    letters += ord("a") if base <= LETTERS else ord("!")
    offsets = np.arange(spec.keys + 1, dtype=np.int64) * spec.payload
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(letters)]
    large = pa.Array.from_buffers(pa.large_string(), spec.keys, buffers)
    return large.cast(pa.string())


def draw(spec: WordsSpec) -> Integers:
    """Draw the places of the words of a block; of as many keys as rows, each occurs once."""
    random = np.random.Generator(np.random.PCG64([spec.seed, 1]))
    if spec.distribution == "uniform" and block_rows(spec.keys) == spec.keys:
        return random.permutation(spec.keys)
    if spec.distribution == "uniform":
        return random.integers(0, spec.keys, block_rows(spec.keys))
    weights = 1.0 / np.arange(1, spec.keys + 1) ** spec.exponent
    steps = np.cumsum(weights) / weights.sum()
    return np.minimum(np.searchsorted(steps, random.random(block_rows(spec.keys))), spec.keys - 1)
