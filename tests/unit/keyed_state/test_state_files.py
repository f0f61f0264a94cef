"""A state file of whoever may write to the shared folder: read in full, or refused by its name."""

import struct
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.base.errors import StateError
from penstock.contract.keygroups import Range
from penstock.keyed_state.state_files import REST_MAX_S, BlockReader, at_half_speed
from penstock.keyed_state.stored_schema import StoredColumns, check_schema, described, loadable
from penstock.model.table_columns import Value
from penstock.steps.base import StateSchema

GROUPS = 16
SCHEMA = StateSchema("count", (("word", pa.string()),), (Value("n", "int64"),))
MAGIC = b"PENSTK\0\2"
FRAME = {
    "group": pa.array([3, 7], pa.uint16()),
    "deleted": pa.array([False, False]),
    "hash": pa.array([1, 2], pa.uint64()),
    "key": pa.array([b"aa", b"bbb"], pa.large_binary()),
    "value:n": pa.array([10, 20]),
}


def written(path: Path, columns: dict[str, Any], codec: str = "lz4") -> BlockReader:
    batch = pa.record_batch(columns)
    batch = batch.replace_schema_metadata({b"penstock": described(SCHEMA, GROUPS)})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as stream:
        stream.write_batch(batch)
    block = sink.getvalue().to_pybytes()
    index = struct.pack("<QQHH", len(MAGIC), len(block), 0, GROUPS - 1)
    end = struct.pack("<QQ8s", len(MAGIC) + len(block), 1, MAGIC)
    path.write_bytes(MAGIC + block + index + end)
    return BlockReader(path, "file x.state of epoch 7")


def blocks(reader: BlockReader) -> list[pa.RecordBatch]:
    found = list(reader.blocks((Range(0, GROUPS),)))
    for block in found:
        check_schema(block, SCHEMA, GROUPS, "file x.state of epoch 7")
    return found


def test_a_block_is_read(tmp_path: Path) -> None:
    (block,) = blocks(written(tmp_path / "x", FRAME))
    keys, deleted, values = loadable(block, SCHEMA, StoredColumns(SCHEMA.stored))
    assert (keys.groups.tolist(), deleted.tolist()) == ([3, 7], [False, False])
    assert values["n"].tolist() == [10, 20]


def outside() -> pa.Array:
    ends = pa.py_buffer(struct.pack("<3q", 0, 1 << 40, 5))
    return pa.Array.from_buffers(pa.large_binary(), 2, [None, ends, pa.py_buffer(b"hello")])


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        (FRAME | {"key": outside()}, "invalid batch, column 'key'"),
        (FRAME | {"key": pa.array(["aa", "b"])}, "is none of a state file"),
        (FRAME | {"group": pa.array([3, 7])}, "is none of a state file"),
        (FRAME | {"group": pa.array([3, 16], pa.uint16())}, "key group 16 of 16"),
        (FRAME | {"value:n": pa.array([1.5, 2.5])}, "its schema says otherwise"),
        ({k: v for k, v in FRAME.items() if k != "value:n"}, "its schema says otherwise"),
        (
            {k: pa.concat_arrays([v] * 20_000) for k, v in FRAME.items()},
            "a batch has 40000 rows, at most 32768",
        ),
    ],
)
def test_a_block_that_a_table_cannot_load_is_refused(tmp_path: Path, columns: dict[str, Any], reason: str) -> None:
    with pytest.raises(StateError, match=rf"file x.state of epoch 7: .*{reason}"):
        blocks(written(tmp_path / "x", columns))


def test_a_block_that_unpacks_to_more_than_lz4_can_hold_takes_no_memory(tmp_path: Path) -> None:
    zeros = pa.array([bytes(32 << 20), b""], pa.large_binary())
    reader = written(tmp_path / "x", FRAME | {"key": zeros}, "zstd")
    before = pa.total_allocated_bytes()
    with pytest.raises(StateError, match="a batch unpacks to 33554"):
        blocks(reader)
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_a_file_whose_index_is_torn_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "torn.state"
    written(path, FRAME)
    data = path.read_bytes()
    path.write_bytes(data[: -24 - 20] + data[-24:])  # without the one entry of the index
    with pytest.raises(StateError, match="no state file"):
        BlockReader(path, "torn.state")


def test_blocks_are_written_at_half_speed_until_somebody_waits() -> None:
    class Noted(threading.Event):
        def __init__(self) -> None:
            super().__init__()
            self.rests: list[float] = []

        def wait(self, timeout: float | None = None) -> bool:
            self.rests.append(timeout or 0.0)
            return True

    event = Noted()
    assert list(at_half_speed([1, 2, 3], event)) == [1, 2, 3]
    assert len(event.rests) == 2
    assert all(0 <= rest <= REST_MAX_S for rest in event.rests)
