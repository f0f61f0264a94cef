"""Generated words: deterministic and seekable, as fast as possible or at a fixed rate.

A block of words is drawn once per process. A row is ``block[(start of its split + offset) % rows]``.
So any offset is reached at once, and the words that a split has sent can be counted without running
it. With a rate the loop is open: rows fall due by the clock, and a source that was blocked still
owes them. ``due_ns`` is when a row should have been sent, so a blocked source shows in the latency.
"""

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base import limits
from penstock.base.errors import ConfigError, StateError
from penstock.connectors.rate_limit import RateLimit
from penstock.connectors.source_rows import head
from penstock.contract.codec import parsed
from penstock.contract.connectors import WordsSpec
from penstock.contract.ids import Epoch, SplitId
from penstock.contract.manifest import SplitState
from penstock.model.arrays import text
from penstock.ports import Read

SCHEMA = pa.schema([pa.field("word", pa.string(), nullable=False)])
LETTERS = 26
SYMBOLS_MIN, SYMBOLS_MAX = 2, 94  # of the printable characters of ASCII
DRAWS_PER_KEY = 16
DRAWS_MIN = 65_536
DRAWS_MAX = 4_194_304  # bounds the block for many keys: it is drawn at each start of a process
DISTRIBUTIONS = ("uniform", "zipf")
Integers = np.ndarray[Any, np.dtype[np.int64]]


_DEFAULTS = WordsSpec()


class WordSource:
    """A source of generated words."""

    schema = SCHEMA

    def __init__(self, spec: WordsSpec) -> None:
        """Check the spec. Raises ConfigError naming the option that does not fit."""
        _check(spec)
        self.spec = spec
        self.bounded = spec.rows is not None
        self._block: WordBlock | None = None

    def splits(self) -> list[SplitState]:
        """List the splits. The spec is part of their state."""
        return [self._first_state(index) for index in range(self.spec.splits)]

    def _first_state(self, index: int) -> SplitState:
        text = json.dumps({"index": index, **asdict(self.spec)}, sort_keys=True)
        return SplitState(SplitId(f"words-{index:05d}"), text, 0, finished=self.spec.rows == 0)

    def open(self, state: SplitState) -> "WordReader":
        """Open a split. Raises StateError when the checkpoint belongs to other words.

        ``rows`` and ``rate`` may differ, because they do not change which words come.
        """
        stored = parsed(state.spec)
        for name in ("seed", "payload", "keys", "symbols", "distribution", "exponent"):
            now = getattr(self.spec, name)
            before = stored.get(name, getattr(_DEFAULTS, name))  # older checkpoints lack some options
            if before != now:
                raise StateError(
                    f"generator: the checkpoint has {name}={before}, the job {now}: offsets would mean other words"
                )
        return WordReader(self._drawn_block(), stored["index"], state, RateLimit(self.spec.rate))

    def prepare(self) -> None:
        """Draw the block, which takes a second for a million words."""
        self._drawn_block()

    def _drawn_block(self) -> "WordBlock":
        if self._block is None:
            self._block = WordBlock(self.spec)
        return self._block


class WordBlock:
    """The drawn words. ``indices[row]`` is the word's index in ``words``; ``batch`` has the rows."""

    def __init__(self, spec: WordsSpec) -> None:
        """Draw the block, which takes seconds for millions of keys."""
        self.spec = spec
        self.words = dictionary(spec)
        self.indices = draw(spec)
        column = self.words.take(pa.array(self.indices))
        self.batch = pa.RecordBatch.from_arrays([column], schema=SCHEMA)

    def start_of(self, split: int) -> int:
        """Return the row of the block at which a split begins; splits are spread evenly."""
        return split * len(self.indices) // self.spec.splits

    def counts(self, split: int, rows: int) -> Integers:
        """Count each word (by its index in ``words``) in the first ``rows`` rows of a split."""
        turned = np.roll(self.indices, -self.start_of(split))
        turns, rest = divmod(rows, len(turned))
        whole = np.bincount(turned, minlength=self.spec.keys)
        return whole * turns + np.bincount(turned[:rest], minlength=self.spec.keys)


class WordReader:
    """Reads one split: slices of the block, once their rows are due."""

    def __init__(self, block: WordBlock, index: int, state: SplitState, limit: RateLimit) -> None:
        """Begin at ``state.offset``, whose row is the first that the rate counts."""
        self._block = block
        self._start = block.start_of(index)
        self._state = state
        self._offset = self._first = state.offset
        self._end = block.spec.rows
        self._limit = limit

    def read(self, max_rows: int) -> Read | None:
        """Return at most ``max_rows`` rows that are due, or None."""
        batch = self._next(max_rows)
        return None if batch is None else self._sent(batch)

    def gather(self, batch_rows: int, batches: int) -> Read | None:
        """Return up to ``batches`` reads as one batch, by copying each after the one before."""
        batch = self._next(batch_rows * batches)
        if batch is None:
            return None
        column = _appended(batch.column(0), batch_rows)
        return self._sent(pa.RecordBatch.from_arrays([column], schema=SCHEMA))

    def _next(self, max_rows: int) -> pa.RecordBatch | None:
        left = max_rows if self._end is None else min(max_rows, self._end - self._offset)
        rows = self._limit.allow(left) if left > 0 else 0
        if rows <= 0:
            return None
        total = self._block.batch.num_rows
        start = (self._start + self._offset) % total
        return head(self._block.batch.slice(start, min(rows, total - start)), rows)

    def _sent(self, batch: pa.RecordBatch) -> Read:
        offset = self._offset
        self._offset += batch.num_rows
        self._limit.sent(batch.num_rows)
        return Read(batch, offset)

    def state(self) -> SplitState:
        """Return where the next read begins."""
        ended = self._end is not None and self._offset >= self._end
        return SplitState(self._state.split, self._state.spec, self._offset, finished=ended)

    def pending(self) -> tuple[int | None, int | None]:
        """Return the rows up to the end; without an end nobody knows."""
        return None if self._end is None else max(0, self._end - self._offset), None

    def due_ns(self, offset: int) -> int | None:
        """Return the monotonic time at which a row should be sent; None without a rate."""
        return self._limit.due_ns(offset - self._first)

    def wait_s(self) -> float:
        """Return how long to wait for the next rows."""
        return self._limit.wait_s()

    def committed(self, epoch: Epoch, state: SplitState) -> None:
        """Do nothing: the words can be made again."""

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def _check(spec: WordsSpec) -> None:
    if spec.distribution not in DISTRIBUTIONS:
        choices = " or ".join(DISTRIBUTIONS)
        raise ConfigError(f"generator: distribution {spec.distribution!r} is not {choices}")
    if not SYMBOLS_MIN <= spec.symbols <= SYMBOLS_MAX:
        raise ConfigError(f"generator: symbols {spec.symbols} is not in {SYMBOLS_MIN} to {SYMBOLS_MAX}")
    if spec.symbols**spec.payload < spec.keys:
        raise ConfigError(f"generator: {spec.payload} letters of {spec.symbols} do not make {spec.keys} words")
    size = block_rows(spec.keys) * spec.payload
    if size > limits.GENERATOR_BLOCK_BYTES_MAX:
        raise ConfigError(
            f"generator: {spec.keys} keys of {spec.payload} bytes need a block of {size} bytes, and"
            f" at most {limits.GENERATOR_BLOCK_BYTES_MAX} are made: take fewer or shorter ones"
        )


def block_rows(keys: int) -> int:
    """Return how many words to draw: each key often, or each once when there are very many."""
    return max(DRAWS_MIN, min(DRAWS_PER_KEY * keys, DRAWS_MAX), keys)


def dictionary(spec: WordsSpec) -> pa.Array:
    """Make the words. A word begins with its number, in letters; the rest is drawn by the seed."""
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
    """Draw the words of a block, by index. With as many keys as rows, each key occurs once."""
    random = np.random.Generator(np.random.PCG64([spec.seed, 1]))
    if spec.distribution == "uniform" and block_rows(spec.keys) == spec.keys:
        return random.permutation(spec.keys)
    if spec.distribution == "uniform":
        return random.integers(0, spec.keys, block_rows(spec.keys))
    weights = 1.0 / np.arange(1, spec.keys + 1) ** spec.exponent
    steps = np.cumsum(weights) / weights.sum()
    return np.minimum(np.searchsorted(steps, random.random(block_rows(spec.keys))), spec.keys - 1)


def _appended(array: pa.Array, batch_rows: int) -> pa.Array:
    """Return a copy of a text array, made by appending ``batch_rows`` rows at a time.

    This is what a client does that takes small messages off the network. ``array`` has no nulls.
    """
    from penstock.model.kernels import routing  # noqa: PLC0415 - loads numba

    assert array.null_count == 0, "nulls are not appended"
    column, rows = text(array), len(array)
    size = int(column[0][rows] - column[0][0])
    ends, block = np.empty(rows + 1, np.int32), pa.allocate_buffer(size + routing.COPY_SLACK)
    routing.append_texts(column, batch_rows, ends, block.address)
    return pa.Array.from_buffers(array.type, rows, [None, pa.py_buffer(ends), block.slice(0, size)])
