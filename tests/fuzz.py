"""Mutated messages of Arrow's IPC format, through every door by which batches come in.

    python -m tests.fuzz --messages 1000000     (make fuzz)
    python -m tests.fuzz --seed 4711            (one message, in this process)

Each seed takes a message as a worker, a sender or a state file would have it, alters it, and gives
it to the code that reads it. What is refused must be refused by our own errors; what is taken is
used by the kernels and by Arrow's functions, and written again. All this is done in child
processes, so that a SIGSEGV is a failure with a seed, and is counted.
"""

import argparse
import mmap
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.base.errors import ConfigError, PeerError, StateError
from penstock.connectors.arrivals import Arrivals
from penstock.connectors.flight_data import decode
from penstock.contract.keygroups import Range
from penstock.keyed_state.hot import HotTable
from penstock.keyed_state.state_files import BlockReader
from penstock.keyed_state.stored_schema import check_schema, described, loadable
from penstock.model.ipc import READ_ERRORS, validate
from penstock.model.keys import destinations
from penstock.model.split import split_by
from penstock.model.table_columns import Value
from penstock.model.wire import DataHead
from penstock.steps.base import StateSchema
from penstock.steps.stateless import split_words
from penstock.transport.batches import pack, unpack

GROUPS = 16
MEMORY_BYTES_MAX = 256 * 1024 * 1024  # of Arrow's pool: no message here has more than 64 KiB
RESIDENT_BYTES_MAX = 1024 * 1024 * 1024  # of the process, whoever took it
FAILURES_MAX = 20
CRASH = -1  # a seed that shows that a dead process is counted
CHANGES_MAX = 6
KIB = 1024
NUMBERS = (0, 1, -1, 2, 7, 8, 255, 1 << 15, 1 << 30, (1 << 31) - 1, -(1 << 31), 1 << 40, 1 << 62)
STATE = StateSchema("count", (("word", pa.string()),), (Value("n", "int64"),))
MAGIC = b"PENSTK\0\2"

ROWS = pa.record_batch(
    {
        "word": ["alpha beta", None, "gamma ", "", "übel 日本", "x" * 40],
        "count": pa.array([1, 2, None, 4, 5, 6], pa.int64()),
        "small": pa.array([1, 2, 3, 4, 5, 6], pa.int16()),
        "flag": [True, None, False, True, True, False],
        "list": [["a", "bc"], None, [], ["d"], ["e", None], ["ff"]],
        "field": [{"a": 1.5, "b": "s"}] * 6,
        "large": pa.array(["one two", "", None, "ä", "b", "c"], pa.large_string()),
        "bytes": pa.array([b"\xff", b"", None, b"a", b"bb", b"ccc"], pa.binary()),
        "when": pa.array([1, 2, 3, None, 5, 6], pa.timestamp("us")),
        "money": pa.array([1, 2, 3, 4, 5, None], pa.decimal128(10, 2)),
        "pair": pa.array([[1, 2]] * 6, pa.list_(pa.int32(), 2)),
        "nothing": pa.nulls(6),
    }
)
CHOSEN = ("word", "large", "bytes")
WORDS = ROWS.select(CHOSEN)
DICTIONARIES = pa.record_batch(
    {
        "word": pa.array(["a b", "c", None, "a b"]).dictionary_encode(),
        "view": pa.array(["short", "x" * 30, None, ""], pa.string_view()),
        "list": pa.array([["a"], ["b", "a"], None, []], pa.list_(pa.string())),
    }
)
BLOCK = pa.record_batch(
    {
        "group": pa.array([1, 3, 7], pa.uint16()),
        "deleted": pa.array([False, True, False]),
        "hash": pa.array([1, 2, 1 << 63], pa.uint64()),
        "key": pa.array([b"aa", b"bbb", b""], pa.large_binary()),
        "value:n": pa.array([10, 20, 30]),
    }
).replace_schema_metadata({b"penstock": described(STATE, GROUPS)})


# --- The doors --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Door:
    """Messages as they should be, and what reads them: it raises PeerError or StateError."""

    messages: tuple[bytes, ...]
    read: Callable[[bytes, Path], pa.RecordBatch | None]


def from_a_peer(message: bytes, _: Path, like: pa.RecordBatch = ROWS) -> pa.RecordBatch:
    head = DataHead(like.num_rows, max(len(message), 8192))
    rows = unpack(pa.py_buffer(message), head, like.schema)
    validate(rows)
    return rows


def plain_from_a_peer(message: bytes, _: Path) -> pa.RecordBatch:
    """Read a batch as the Flight server does: Arrow decodes it, and its schema must be a known one.

    Arrow allocates the size that a compressed buffer claims, up to 4 GiB, before it looks at the bytes. It
    does not touch that memory. Only a worker of the same job can send such a buffer.
    """
    try:
        pool = pa.system_memory_pool()
        rows = pa.ipc.open_stream(message, memory_pool=pool).read_next_batch()
    except READ_ERRORS as error:
        raise PeerError(str(error)) from error
    if not any(rows.schema.equals(known.schema) for known in (ROWS, WORDS, DICTIONARIES)):
        raise PeerError("batches of another schema")
    validate(rows)
    return rows


def from_a_sender(message: bytes, _: Path) -> pa.RecordBatch | None:
    """Read a stream of messages of Flight, each behind its length."""
    wanted = [("word", pa.string())]
    arrivals = Arrivals(pa.schema(wanted))
    at, rows = 0, None
    while at + 4 <= len(message):
        size = int.from_bytes(message[at : at + 4], "little")
        found = decode(message[at + 4 : at + 4 + size])
        at += 4 + size
        rows = arrivals.rows(found) if found.header else rows
    return rows


def from_a_file(message: bytes, folder: Path) -> pa.RecordBatch:
    end = struct.pack("<QQ8s", len(MAGIC) + len(message), 1, MAGIC)
    index = struct.pack("<QQHH", len(MAGIC), len(message), 0, GROUPS - 1)
    file = folder / "block"
    file.write_bytes(MAGIC + message + index + end)
    table = HotTable(STATE)
    block = pa.record_batch({"word": pa.array([], pa.string())})
    for block in BlockReader(file, "file").blocks((Range(0, GROUPS),)):
        stored = check_schema(block, STATE, GROUPS, "file")
        table.load(*loadable(block, STATE, stored))
    return block


def streamed(rows: pa.RecordBatch, codec: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_batch(rows)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def flown(rows: pa.RecordBatch, codec: str | None = None) -> bytes:
    found = b""
    for message in pa.ipc.MessageReader.open_stream(streamed(rows, codec)):
        body = message.body.to_pybytes() if message.body is not None else b""
        data = _field(2, message.metadata.to_pybytes()) + _field(1000, body)
        found += len(data).to_bytes(4, "little") + data
    return found


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


DOORS = {
    "peer, packed": Door((pack(ROWS, ROWS.schema, b"").to_pybytes(),), from_a_peer),
    "peer, packed texts": Door(
        (pack(WORDS, WORDS.schema, b"").to_pybytes(), streamed(WORDS)),
        lambda m, p: from_a_peer(m, p, WORDS),
    ),
    "peer, plain": Door((streamed(ROWS), streamed(WORDS), streamed(DICTIONARIES)), plain_from_a_peer),
    "sender": Door(
        tuple(flown(rows, codec) for rows in (ROWS, WORDS, DICTIONARIES) for codec in (None, "lz4", "zstd")),
        from_a_sender,
    ),
    "state": Door((streamed(BLOCK, "lz4"), streamed(BLOCK)), from_a_file),
}


# --- One message ------------------------------------------------------------------------------


def altered(message: bytes, choose: random.Random) -> bytes:
    """Change some bits, bytes, numbers or stretches of a message."""
    data = bytearray(message)
    for _ in range(choose.randint(1, CHANGES_MAX)):
        place = choose.randrange(len(data))
        match choose.randrange(8):
            case 0 | 1:
                data[place] ^= 1 << choose.randrange(8)
            case 2:
                data[place] = choose.randrange(256)
            case 3 | 4:
                place -= place % 4
                number = choose.choice(NUMBERS) & 0xFFFFFFFF
                data[place : place + 4] = number.to_bytes(4, "little")
            case 5:
                place -= place % 8
                number = choose.choice(NUMBERS) & 0xFFFFFFFFFFFFFFFF
                data[place : place + 8] = number.to_bytes(8, "little")
            case 6:
                other = choose.randrange(len(data))
                size = choose.choice((4, 8, 16, 64))
                data[place : place + size] = data[other : other + size]
            case 7 if choose.randrange(4) == 0:
                del data[place:]
                data += b"\0"
    return bytes(data)


def use(rows: pa.RecordBatch) -> None:
    """Do to rows what a job would: kernels, Arrow's functions, and the way to the next worker."""
    table, sent = np.arange(GROUPS, dtype=np.int32) % 3, np.zeros(GROUPS, np.int64)
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            split_words(column)
        if name in {"word", "count", "large", "bytes", "when", "small", "flag"}:
            split_by(rows, destinations([column], table, sent), 3)
    pa.concat_batches([rows, rows.slice(rows.num_rows // 2)]).nbytes.bit_length()
    rows.filter(pa.array([row % 2 == 0 for row in range(rows.num_rows)], pa.bool_()))
    rows.take(pa.array(range(rows.num_rows - 1, -1, -1), pa.int64()))
    streamed(rows)
    rows.to_pylist()


def one(seed: int, folder: Path) -> str:
    """Read one altered message; return what became of it. Raises whatever must not happen."""
    if seed == CRASH:
        os.kill(os.getpid(), signal.SIGSEGV)
    choose = random.Random(seed)
    name = choose.choice(tuple(DOORS))
    message = altered(choose.choice(DOORS[name].messages), choose)
    try:
        rows = DOORS[name].read(message, folder)
    except (PeerError, StateError):
        return f"{name}: refused"
    # Types that no job has, and values that Python has none for.
    with suppress(pa.ArrowNotImplementedError, ConfigError, ArithmeticError):
        if rows is not None:
            use(rows)
    return f"{name}: taken"


# --- Many messages ----------------------------------------------------------------------------


@dataclass(slots=True)
class Outcome:
    """What became of all messages, and the seeds that failed, with why."""

    counts: Counter[str] = field(default_factory=Counter)
    failed: dict[int, str] = field(default_factory=dict)


def run(first: int, messages: int) -> Outcome:
    """Read messages of seeds from ``first`` on in child processes; one that dies is succeeded."""
    outcome = Outcome()
    at, stop = first, first + messages
    with tempfile.TemporaryDirectory(prefix="penstock-fuzz-") as folder:
        note = Path(folder, "note")
        while at < stop and len(outcome.failed) < FAILURES_MAX:
            note.write_bytes(bytes(8))
            child = subprocess.run(
                [sys.executable, "-m", "tests.fuzz", "--child", str(at), str(stop), folder],
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            )
            for line in child.stdout.splitlines():
                count, _, what = line.partition(" ")
                outcome.counts[what] += int(count)
            if child.returncode == 0:
                break
            seed = int.from_bytes(note.read_bytes(), "little", signed=True)
            outcome.failed[seed] = f"exit {child.returncode}: {child.stderr[-2000:].strip()}"
            at = seed + 1
    return outcome


def child(first: int, stop: int, folder: Path) -> None:
    """Read messages; the seed at work is in a file that outlives this process."""
    counts: Counter[str] = Counter()
    with written(folder / "note") as note:
        try:
            for seed in range(first, stop):
                note[:8] = seed.to_bytes(8, "little", signed=True)
                counts[one(seed, folder)] += 1
                taken = pa.default_memory_pool().max_memory()
                assert taken < MEMORY_BYTES_MAX, f"{taken} bytes were taken"
                resident = resident_bytes_max()
                assert resident < RESIDENT_BYTES_MAX, f"{resident} bytes are resident"
        finally:
            for what, count in counts.items():
                print(count, what)


def resident_bytes_max() -> int:
    """Return the most memory that this program has had at once.

    getrusage tells more: it keeps the peak of the process that started this program.
    """
    status = Path("/proc/self/status").read_text()
    peak = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    assert peak is not None, "Linux says it"
    return int(peak[1]) * KIB


@contextmanager
def written(path: Path) -> Iterator[mmap.mmap]:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 8) as memory:
        yield memory


def main() -> int:
    """Run what the command line says; 1 when a message did what it must not."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="this one alone, in this process")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(int(options.child[0]), int(options.child[1]), Path(options.child[2]))
        return 0
    if options.seed is not None:
        with tempfile.TemporaryDirectory() as folder:
            print(one(options.seed, Path(folder)))
        return 0
    outcome = run(options.first, options.messages)
    for what, count in sorted(outcome.counts.items()):
        print(f"{count:>9} {what}")
    for seed, why in outcome.failed.items():
        print(f"FAILED: python -m tests.fuzz --seed {seed}: {why}")
    print(f"{sum(outcome.counts.values())} messages, {len(outcome.failed)} failed")
    return 1 if outcome.failed else 0


if __name__ == "__main__":
    sys.exit(main())
