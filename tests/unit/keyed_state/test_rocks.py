"""The database of rows on disk, one call at a time."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.keyed_state.hot import HotTable
from penstock.keyed_state.rocks import ColdRows
from penstock.model.keys import KeyCodec
from penstock.model.table_columns import Value
from penstock.steps.base import StateSchema

CODEC = KeyCodec((pa.string(),), 4)
SCHEMA = StateSchema("s", (("k", pa.string()),), (Value("n", "int64"),))


def test_a_deleted_row_is_not_dirty_any_more(tmp_path: Path) -> None:
    table = HotTable(SCHEMA)
    rows = table.rows(CODEC.keys([pa.array(["stays", "goes"])]))
    cold = ColdRows(tmp_path / "cold", SCHEMA)
    stays, goes = cold.put(table.copy_rows(rows), np.array([7, 7], np.int64), table.queued_timers(rows))
    cold.delete([goes])
    assert cold.dirty_keys() == [stays]
    assert [row.key for row in cold.get([stays, goes])] == [stays]
    cold.close()
