"""What an engine works on, in a small file that both it and its keeper map: it survives the engine.

A process that is killed says nothing. So each task that calls functions of the user writes what it
is about to hand to them into a slot of the file, and takes it away afterwards: some hundred
nanoseconds a batch. The pages belong to the kernel; after a death the keeper reads what is left.

::

    64 bytes: magic, the engine's life     then slots of 512 bytes, one for each such task:
    state  first offset  rows  lengths of the three texts  steps, source, split (UTF-8)

``state`` is 0 while the task is not in a function. It is written last before a call and first
after it, so a slot that says otherwise is whole.
"""

import mmap
import os
import stat
import struct
import threading
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from penstock.base.errors import Where
from penstock.base.limits import IN_FLIGHT_SLOTS_MAX
from penstock.contract.ids import Incarnation

MAGIC = b"PNSTKIF1"
HEADER = struct.Struct("<8s56s")
STATE = struct.Struct("<I")
ROWS = struct.Struct("<qq")
LENGTHS = struct.Struct("<HHH")
SLOT_BYTES = 512
PAGE_BYTES = HEADER.size + IN_FLIGHT_SLOTS_MAX * SLOT_BYTES
ROWS_AT = 8
LENGTHS_AT = ROWS_AT + ROWS.size
TEXT_AT = LENGTHS_AT + LENGTHS.size
TEXT_BYTES_MAX = (SLOT_BYTES - TEXT_AT) // 3
SPELT_MAX = 64  # names of splits that a slot keeps as they are written
UNKNOWN_OFFSET = -1
IDLE, BUSY = 0, 1

Reading = tuple[str, str, int]  # source, split and first offset of the rows that were read last


@dataclass(frozen=True, slots=True)
class InFlight:
    """Rows that one task had handed to functions of the user.

    Behind a shuffle ``source`` and ``split`` are empty and ``first`` is -1. No rows: event time
    was passing, or a timer fired.
    """

    steps: str
    source: str
    split: str
    first: int
    rows: int

    def __str__(self) -> str:
        """Spell it as the place of an error is spelt."""
        if not self.rows:
            return f"{Where(self.steps)}, as event time passed"
        if self.first == UNKNOWN_OFFSET:
            return f"{Where(self.steps)}, {self.rows} rows from other tasks"
        last = self.first + self.rows - 1
        return f"{Where(self.steps, self.source, self.split)}, offsets {self.first} to {last}"


class Slot:
    """One task's part of the page; used by its thread only."""

    def __init__(self, page: "InFlightPage", at: int, steps: str) -> None:
        """Take the slot at byte ``at``; ``steps`` are those that call the user's functions."""
        self._page = page
        self._memory = page.memory
        self._at = at
        self._steps = _clipped(steps)
        self._shown: tuple[str, str] | None = None
        self._spelt: dict[tuple[str, str], bytes] = {}  # splits are read round-robin

    def enter(self, reading: Reading | None, rows: int) -> None:
        """Say what the task is about to hand to the user's functions."""
        source, split, first = reading if reading is not None else ("", "", UNKNOWN_OFFSET)
        if self._shown != (source, split):
            self._show(source, split)
        ROWS.pack_into(self._memory, self._at + ROWS_AT, first, rows)
        STATE.pack_into(self._memory, self._at, BUSY)

    def leave(self) -> None:
        """Say that the functions have returned."""
        STATE.pack_into(self._memory, self._at, IDLE)

    def free(self) -> None:
        """Give the slot back: the task has ended."""
        self.leave()
        self._page.take_back(self._at)

    def _show(self, source: str, split: str) -> None:
        found = self._spelt.get((source, split))
        if found is None:
            texts = (self._steps, _clipped(source), _clipped(split))
            found = LENGTHS.pack(*map(len, texts)) + b"".join(texts)
            if len(self._spelt) >= SPELT_MAX:
                self._spelt.clear()
            self._spelt[source, split] = found
        at = self._at + LENGTHS_AT
        self._memory[at : at + len(found)] = found
        self._shown = (source, split)


class InFlightPage:
    """The engine's end. Slots may be taken and given back by any thread."""

    def __init__(self, path: Path, life: Incarnation) -> None:
        """Make the file of this life; another life's that lies there is replaced."""
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        with fresh.open("wb+") as file:
            file.truncate(PAGE_BYTES)
            self.memory = mmap.mmap(file.fileno(), PAGE_BYTES)
        HEADER.pack_into(self.memory, 0, MAGIC, life.encode())
        fresh.replace(path)
        self._lock = threading.Lock()
        self._free = [HEADER.size + n * SLOT_BYTES for n in reversed(range(IN_FLIGHT_SLOTS_MAX))]

    def slot(self, steps: str) -> Slot | None:
        """Take a slot; None when there are more tasks than slots, which then say nothing."""
        with self._lock:
            return Slot(self, self._free.pop(), steps) if self._free else None

    def take_back(self, at: int) -> None:
        """Let another task have the slot."""
        with self._lock:
            self._free.append(at)


def read_newest(path: Path) -> list[InFlight] | None:
    """Return what :func:`read_in_flight` does of the newest life that has left a page."""
    return _read(path, None)


def read_in_flight(path: Path, life: Incarnation) -> list[InFlight] | None:
    """Return what the engine ``life`` had handed to functions of the user when it ended.

    None when it left no page: it ended before it was ready, or it calls no function. The engine
    runs code of the user, so nothing in the file is believed: what makes no sense is left out.
    """
    return _read(path, life)


def _read(path: Path, life: Incarnation | None) -> list[InFlight] | None:
    data = _read_plain(path)
    if len(data) < HEADER.size:
        return None
    magic, name = HEADER.unpack_from(data)
    if magic != MAGIC or (life is not None and name.rstrip(b"\0") != life.encode()):
        return None
    starts = range(HEADER.size, len(data) - SLOT_BYTES + 1, SLOT_BYTES)
    found = (_read_slot(data[at : at + SLOT_BYTES]) for at in starts[:IN_FLIGHT_SLOTS_MAX])
    return [entry for entry in found if entry is not None]


def _read_plain(path: Path) -> bytes:
    """Read a file that user code may have put there: no link, no pipe, and only so much of it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    with open(descriptor, "rb") as file:
        return file.read(PAGE_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""


def _read_slot(slot: bytes) -> InFlight | None:
    if STATE.unpack_from(slot)[0] != BUSY:
        return None
    first, rows = ROWS.unpack_from(slot, ROWS_AT)
    steps, source, split = LENGTHS.unpack_from(slot, LENGTHS_AT)
    ends = [TEXT_AT, TEXT_AT + steps, TEXT_AT + steps + source, TEXT_AT + steps + source + split]
    if rows < 0 or first < UNKNOWN_OFFSET or ends[-1] > SLOT_BYTES:
        return None
    texts = [slot[a:b].decode(errors="replace") for a, b in pairwise(ends)]
    return InFlight(texts[0], texts[1], texts[2], first, rows)


def _clipped(text: str) -> bytes:
    return text.encode()[:TEXT_BYTES_MAX].decode(errors="ignore").encode()
