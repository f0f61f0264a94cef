"""One of the two processes of a bare exchange: see :mod:`bench.bare`.

    python -m bench.bare_part '{"number": 0, "payload": 1024, ...}'

It prints its port, reads the port of the other process, runs to the end of its words, and prints the
counts.
"""

import gc
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.flight as fl

from penstock.connectors.discard_sink import bucket
from penstock.connectors.generator import SCHEMA, WordSource
from penstock.contract.connectors import WordsSpec
from penstock.contract.graph import Compute, Function
from penstock.contract.keygroups import Range
from penstock.contract.settings import StateSettings
from penstock.engine.main import SWITCH_INTERVAL_S, set_up_process
from penstock.engine.source_reader import marks_between
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.model.keys import destinations
from penstock.model.split import split_by
from penstock.steps.base import StateSchema
from penstock.steps.keyed import Aggregates, KeyColumns

PROCESSES = 2
GROUPS = 256
OWNERS = (np.arange(GROUPS) * PROCESSES // GROUPS).astype(np.int32)
SENT = np.zeros(GROUPS, np.int64)
TURN_S = 0.001  # time between two reads at a fixed rate
TURN_BYTES = 8 * 2**20  # of a read at full rate: 1, 2 and 4 MiB gave less with 1 KiB words
TURN_ROWS = 65_536
WAITING_MAX = 4  # batches before a counting thread, at full rate
NAP_S = 0.0002

Marks = tuple[int, ...]  # when rows were due, ns of the monotonic clock


@dataclass(frozen=True, slots=True)
class Part:
    """What one process does. ``words`` are those of both sources, ``rate`` is that of each source.

    Without ``rate`` it runs as fast as possible. Latencies of the first ``warmup_s`` do not count.
    """

    number: int
    words: WordsSpec
    rate: int | None
    warmup_s: float


def read_part(text: str) -> Part:
    """Read a part from JSON."""
    plain = json.loads(text)
    return Part(**{**plain, "words": WordsSpec(**plain["words"])})


class Counter(threading.Thread):
    """Counts the words of both sources, as they come."""

    def __init__(self, part: Part) -> None:
        """Begin with all counts at 0."""
        super().__init__(name="count", daemon=True)
        self.queue: SimpleQueue[tuple[pa.RecordBatch, Marks] | None] = SimpleQueue()
        self.rows = 0
        self.sum = 0
        self.ages: dict[int, int] = {}
        self.counted_at = 0.0  # the newest rows
        self._warm_ns = round((time.monotonic() + part.warmup_s) * 1e9)
        self._keys = KeyColumns(SCHEMA, ["word"], GROUPS)
        self._aggregates = Aggregates("counts", (Compute("count", Function.COUNT),), SCHEMA)
        state = KeyedStateBackend(StateSettings(), (Range(0, GROUPS),), GROUPS)
        self._table = state.open(StateSchema("counts", self._keys.fields, self._aggregates.values()))

    def run(self) -> None:
        """Count until every source has ended."""
        ended = 0
        while ended < PROCESSES:
            taken = self.queue.get()
            if taken is None:
                ended += 1
                continue
            self.count(taken[0])
            now = time.monotonic_ns()
            for due in taken[1] if now >= self._warm_ns else ():
                age = bucket(now - due)
                self.ages[age] = self.ages.get(age, 0) + 1

    def count(self, batch: pa.RecordBatch) -> None:
        """Count the words of a batch, and add up the running counts as the oracle does."""
        keys = self._keys.codec.keys(self._keys.of(batch))
        found = self._table.rows(keys)
        (counts,) = self._aggregates.running(self._aggregates.fold(self._table, found, batch))
        self.rows += batch.num_rows
        self.sum += int(np.add.reduce(counts.to_numpy()))
        self.counted_at = time.monotonic()

    def wait_for_room(self) -> None:
        """Block a fast source while too many batches wait."""
        while self.queue.qsize() >= WAITING_MAX:
            time.sleep(NAP_S)


class Door(fl.FlightServerBase):  # type: ignore[misc]
    """Receives the batches of the other process."""

    def __init__(self, counter: Counter, *, bounded: bool) -> None:
        """Listen on any free port of the loopback address."""
        super().__init__("grpc://127.0.0.1:0")
        self._counter = counter
        self._bounded = bounded

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Pass batches to the counter. While it blocks, Flight also blocks the sender."""
        for chunk in reader:
            if chunk.data is None:
                break
            if self._bounded:
                self._counter.wait_for_room()
            due = np.frombuffer(chunk.app_metadata or b"", np.int64)
            self._counter.queue.put((chunk.data, tuple(due.tolist())))
        self._counter.queue.put(None)


def reads(part: Part) -> Iterator[tuple[pa.RecordBatch, Marks]]:
    """Yield the words of a source as they fall due, or without a rate as fast as possible."""
    source = WordSource(part.words)
    reader = source.open(source.splits()[part.number])
    most = min(TURN_ROWS, max(TURN_BYTES // part.words.payload, 1))
    sent, begun = 0, time.monotonic_ns()
    while not reader.state().finished:
        wanted = most
        if part.rate is not None:
            time.sleep(TURN_S)
            wanted = int((time.monotonic_ns() - begun) * part.rate / 1e9) - sent
        read = reader.read(wanted) if wanted > 0 else None
        if read is not None:
            yield read.batch, marks(part, begun, sent, read.batch.num_rows)
            sent += read.batch.num_rows


def marks(part: Part, begun: int, first: int, rows: int) -> Marks:
    """Return the marks that fall between the due times of some rows; none without a rate."""
    if part.rate is None:
        return ()
    start, stop = (begun + round(n * 1e9 / part.rate) for n in (first, first + rows))
    return tuple(marks_between(start, stop))


def deal(part: Part, counter: Counter, port: str) -> None:
    """Read words and partition them by key, for the counter here and for the other process."""
    client = fl.FlightClient(f"grpc://127.0.0.1:{port}")
    writer, _ = client.do_exchange(fl.FlightDescriptor.for_command(b"bare"))
    writer.begin(SCHEMA)
    other, marked = 1 - part.number, part.number
    for batch, due in reads(part):
        halves = dict(split_by(batch, destinations([batch.column(0)], OWNERS, SENT), PROCESSES))
        told = {marked: due}
        if due:  # the marks go to both counters in turn
            marked = 1 - marked
        if part.number in halves:
            if part.rate is None:
                counter.wait_for_room()
            counter.queue.put((halves[part.number], told.get(part.number, ())))
        if other in halves:
            stamps = np.array(told.get(other, ()), np.int64).tobytes()
            writer.write_with_metadata(halves[other], stamps)
    counter.queue.put(None)
    writer.done_writing()


def warm(part: Part) -> None:
    """Load the kernels and draw the words: neither is measured."""
    source = WordSource(part.words)
    read = source.open(source.splits()[0]).read(64)
    assert read is not None, "a source without rows"
    split_by(read.batch, destinations([read.batch.column(0)], OWNERS, SENT), PROCESSES)
    Counter(part).count(read.batch)


def work(part: Part) -> dict[str, Any]:
    """Run one of the processes. Returns its counts."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    set_up_process()
    warm(part)
    counter = Counter(part)
    door = Door(counter, bounded=part.rate is None)
    print(door.port, flush=True)
    port = sys.stdin.readline().strip()
    gc.collect()
    gc.freeze()
    counter.start()
    cpu, begun = time.process_time(), time.monotonic()
    deal(part, counter, port)
    counter.join()
    return {
        "rows": counter.rows,
        "sum": counter.sum,
        "ages": counter.ages,
        "cpu_s": time.process_time() - cpu,
        "begun": begun,
        "ended": counter.counted_at,
    }


def main() -> None:
    """Run the part in the argument; print what was counted."""
    print(json.dumps(work(read_part(sys.argv[1]))), flush=True)
    sys.stdin.readline()
    os._exit(0)  # Flight's server would wait for the calls of the other process


if __name__ == "__main__":
    main()
