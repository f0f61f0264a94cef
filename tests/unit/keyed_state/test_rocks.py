"""The database of rows on disk, one call at a time."""

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.keyed_state.copies import COPIED_BYTES_MAX
from penstock.keyed_state.hot import HotTable
from penstock.keyed_state.rocks import ColdRows
from penstock.model.keys import KeyCodec
from penstock.model.table_columns import BYTES, Value
from penstock.steps.base import StateSchema

CODEC = KeyCodec((pa.string(),), 4)
SCHEMA = StateSchema("s", (("k", pa.string()),), (Value("n", "int64"),))


def test_a_deleted_row_is_not_dirty_any_more(tmp_path: Path) -> None:
    table = HotTable(SCHEMA)
    rows = table.rows(CODEC.keys([pa.array(["stays", "goes"])]))
    cold = ColdRows(tmp_path / "cold", SCHEMA)
    stays, goes = cold.put(table.copy_rows(rows), np.array([7, 7], np.int64), table.queued_timers(rows))
    cold.delete([goes])
    assert [row.key for few in cold.dirty_rows() for row in few] == [stays]
    assert [row.key for row in cold.get([stays, goes])] == [stays]
    assert cold.take_dirty([stays, goes]) == [stays], "its mark would be looked at for every checkpoint"
    cold.close()


def test_large_rows_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    schema = StateSchema("s", (("k", pa.string()),), (Value("text", BYTES),))
    table = HotTable(schema)
    rows = table.rows(CODEC.keys([pa.array([f"{n:03}" for n in range(200)])]))
    table.write_bytes("text", rows, pa.array([b"x" * (COPIED_BYTES_MAX // 10)] * len(rows)))
    cold = ColdRows(tmp_path / "cold", schema)
    keys = cold.put(table.copy_rows(rows), np.array([7] * len(rows), np.int64), {})
    few = list(cold.dirty_rows())
    assert max(map(len, few)) == 10
    assert sorted(row.key for part in few for row in part) == sorted(keys)
    of_group = [key for key in sorted(keys) if key.startswith(b"\0\1")]
    few = list(cold.prefixed(b"\0\1"))
    assert max(map(len, few)) == 10
    assert [row.key for part in few for row in part] == of_group
    cold.close()


def test_a_database_whose_disk_fails_closes_and_gives_its_files_back(tmp_path: Path) -> None:
    table = HotTable(SCHEMA)
    rows = table.rows(CODEC.keys([pa.array(["a"])]))
    cold = ColdRows(tmp_path / "cold", SCHEMA)
    cold.put(table.copy_rows(rows), np.array([7], np.int64), table.queued_timers(rows))
    shutil.rmtree(tmp_path / "cold")  # what is in memory cannot be written any more
    cold.close()
    assert not [name for name in map(os.path.realpath, Path("/proc/self/fd").iterdir()) if str(tmp_path) in name]
