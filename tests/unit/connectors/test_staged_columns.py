"""Rows that were staged before a job was changed."""

import pyarrow as pa
import pytest

from penstock.base.errors import StateError
from penstock.connectors.staged_columns import in_columns

STAGED = pa.record_batch({"paid": [1, 2], "due": [3, 4]})


def test_columns_are_found_by_their_names_and_others_are_refused() -> None:
    """Both are numbers: by their order each would go into the other one."""
    turned = pa.schema([("due", pa.int64()), ("paid", pa.int64())])
    assert [each.to_pylist() for each in in_columns(STAGED, turned, "table")] == [[3, 4], [1, 2]]
    others = [turned.set(0, field) for field in (pa.field("owed", pa.int64()), pa.field("due", pa.int32()))]
    for other in (turned.remove(0), *others):
        with pytest.raises(StateError, match=r"table: committed rows have the columns paid int64, due int64, .*Drop"):
            in_columns(STAGED, other, "table")
