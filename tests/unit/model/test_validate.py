"""What a peer may send that Arrow reads and no kernel survives: each is refused, at any depth."""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.base.errors import PeerError
from penstock.model.ipc import validate


def buffer(layout: str, *numbers: int) -> pa.Buffer:
    return pa.py_buffer(struct.pack("<" + layout, *numbers))


def array(kind: pa.DataType, rows: int, *buffers: Any, **more: Any) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, list(buffers), **more)


def text(ends: tuple[int, ...], data: bytes, kind: pa.DataType | None = None) -> pa.Array:
    kind = kind or pa.string()
    width = "q" if "large" in str(kind) else "i"
    offsets = buffer(f"{len(ends)}{width}", *ends)
    return array(kind, len(ends) - 1, None, offsets, pa.py_buffer(data))


def dictionary(index: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(
        array(pa.int32(), 2, None, buffer("2i", 0, index)), pa.array(["a", "b"]), safe=False
    )


def listed(inner: pa.Array, ends: tuple[int, ...]) -> pa.Array:
    offsets = buffer(f"{len(ends)}i", *ends)
    return array(pa.list_(inner.type), len(ends) - 1, None, offsets, children=[inner])


FAR = text((0, 2**30, 5), b"hello")
BROKEN: dict[str, Callable[[], pa.Array]] = {
    "an offset beyond the bytes": lambda: FAR,
    "an offset that falls": lambda: text((0, 4, 2, 5), b"hello"),
    "an offset before the bytes": lambda: text((-8, 2, 5), b"hello"),
    "the last offset beyond the bytes": lambda: text((0, 2, 6), b"hello"),
    "large offsets beyond the bytes": lambda: text((0, 2**40, 5), b"hello", pa.large_string()),
    "binary with offsets beyond the bytes": lambda: text((0, 2**30, 5), b"hello", pa.binary()),
    "large binary with offsets that fall": lambda: text((0, 4, 2, 5), b"hello", pa.large_binary()),
    "no UTF-8": lambda: text((0, 2), b"\xff\xfe"),
    "half a character": lambda: text((0, 1, 2), "ü".encode()),
    "half a character at the end": lambda: text((0, 2), "aü".encode()),
    "an overlong slash": lambda: text((0, 2), b"\xc0\xaf"),
    "a surrogate": lambda: text((0, 3), b"\xed\xa0\x80", pa.large_string()),
    "an index beyond its dictionary": lambda: dictionary(7),
    "a negative index": lambda: dictionary(-1),
    "a list beyond its items": lambda: listed(pa.array([1, 2]), (0, 2**30, 2)),
    "a list of texts beyond their bytes": lambda: listed(FAR, (0, 1, 2)),
    "a field of texts beyond their bytes": lambda: pa.StructArray.from_arrays([FAR], ["text"]),
    "a list of fields of an index beyond": lambda: listed(pa.StructArray.from_arrays([dictionary(7)], ["d"]), (0, 2)),
    "a bitmap that is too short": lambda: array(
        pa.int64(), 100, pa.py_buffer(b"\x01"), pa.py_buffer(bytes(800)), null_count=99
    ),
    "values that are too short": lambda: array(pa.int64(), 100, None, pa.py_buffer(bytes(80))),
    "no offsets": lambda: array(pa.string(), 2, None, None, pa.py_buffer(b"ab")),
    "more nulls than the bitmap has": lambda: array(
        pa.string(),
        2,
        pa.py_buffer(b"\x03"),
        buffer("3i", 0, 1, 2),
        pa.py_buffer(b"ab"),
        null_count=1,
    ),
    "a view beyond its bytes": lambda: array(
        pa.string_view(), 1, None, buffer("4i", 20, 0, 0, 2**30), pa.py_buffer(b"x" * 20)
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_batches_that_are_unsafe_for_kernels_are_refused(name: str) -> None:
    with pytest.raises((PeerError, pa.ArrowInvalid)):
        validate(pa.RecordBatch.from_arrays([BROKEN[name]()], ["x"]))


HIDDEN = array(  # below a null any bytes may lie
    pa.string(), 2, pa.py_buffer(b"\x01"), buffer("3i", 0, 1, 3), pa.py_buffer(b"a\xff\xff")
)
SOUND = {
    "ASCII": pa.array(["a", "", "ccc" * 50]),
    "a slice": pa.array(["aü", "b", "ccc" * 50]).slice(1, 1),
    "beyond ASCII": pa.array(["ü", "日本語", "", "🌊", "a"]),
    "large": pa.array(["ü", None, "a"], pa.large_string()),
    "binary": pa.array([b"\xff\xfe", b"", None]),
    "nulls": pa.array(["a", None, "ü"]),
    "bytes below a null": HIDDEN,
    "nothing": pa.nulls(3),
    "no rows": pa.array([], pa.string()),
    "a dictionary": pa.array(["a", "b", "a"]).dictionary_encode(),
    "lists": pa.array([[{"a": "x"}], None, []]),
    "offsets that do not begin at 0": text((2, 3, 5), b"\xff\xffabc"),
    "a view": pa.array(["a" * 20, None], pa.string_view()),
}


@pytest.mark.parametrize("name", SOUND)
def test_valid_batches_are_accepted(name: str) -> None:
    batch = pa.RecordBatch.from_arrays([SOUND[name]], ["x"])
    batch.validate(full=True)
    validate(batch)


def test_arrow_and_the_kernels_accept_the_same_batches() -> None:
    """Offsets and bytes near the border between sound and broken, some thousands of them."""
    random = np.random.default_rng(7)
    letters = "aß日🌊".encode() + b"\x80\xff"
    verdicts = {True: 0, False: 0}
    for _ in range(4000):
        rows = int(random.integers(0, 6))
        data = bytes(letters[i] for i in random.integers(0, 12, 8))
        data = data if random.integers(2) else "aß日a".encode()[:8]
        ends = np.sort(random.integers(0, 9, rows + 1))
        if not random.integers(4):
            ends[random.integers(rows + 1)] = random.integers(-1, 11)
        bitmap = pa.py_buffer(random.bytes(1)) if random.integers(2) else None
        kind = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())[random.integers(4)]
        width = np.int64 if "large" in str(kind) else np.int32
        try:
            made = array(kind, rows, bitmap, pa.py_buffer(ends.astype(width)), pa.py_buffer(data))
        except pa.ArrowInvalid:
            continue  # seen without a look at the values
        batch = pa.RecordBatch.from_arrays([made], ["x"])
        expected = refuses(lambda b: b.validate(full=True), batch)
        assert refuses(validate, batch) == expected, (kind, ends, data)
        verdicts[expected] += 1
    assert min(verdicts.values()) > 500, verdicts


def refuses(look: Any, batch: pa.RecordBatch) -> bool:
    try:
        look(batch)
    except (PeerError, pa.ArrowInvalid):
        return True
    return False
