"""Rows of a null key are a line of their own: another key may be the same bytes, and belongs to other key groups."""

from typing import Any

import pyarrow as pa
import pytest

from penstock.contract.keygroups import Range
from penstock.keyed_state.hot import HotTable
from penstock.steps.enrich.asked_rows import AskedRows
from penstock.steps.enrich.pending_rows import PendingRows
from penstock.steps.keyed import KeyColumns

GROUPS = 16


def asked(keys: list[Any], kind: pa.DataType) -> tuple[PendingRows, AskedRows[None]]:
    rows = pa.record_batch({"key": pa.array(keys, kind)})
    pending = PendingRows(10, 1, ordered=True)
    made = AskedRows[None](KeyColumns(rows.schema, ["key"], GROUPS), rows.schema, pending, lambda _: None, timed=False)
    made.open("asked", HotTable)
    made.add(rows)
    return pending, made


@pytest.mark.parametrize(("kind", "like_null"), [(pa.string(), ""), (pa.int64(), 0), (pa.bool_(), False)])
def test_a_null_key_that_moves_takes_no_other_key_with_it(kind: pa.DataType, like_null: Any) -> None:
    pending, rows = asked([None, like_null], kind)
    lost, stays = (rows.places[number].group for number in (0, 1))
    assert lost != stays
    rows.give_up((Range(lost, lost + 1),))
    assert list(pending.answered([(1, "answer")])) == [(1, "answer")]
    assert not len(pending)


def test_rows_of_a_null_key_leave_in_order_whatever_is_behind_their_nulls() -> None:
    plain = pa.array([7, 8], pa.int64())
    nulls = pa.Array.from_buffers(plain.type, 2, [pa.py_buffer(b"\0"), plain.buffers()[1]])
    pending, _ = asked(nulls, plain.type)
    assert not pending.answered([(1, "second")]), "the first one waits"
    assert list(pending.answered([(0, "first")])) == [(0, "first"), (1, "second")]
