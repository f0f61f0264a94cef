"""Values of 2 GiB and more are refused: their offsets would wrap around, and name other bytes."""

import numpy as np
import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError
from penstock.keyed_state.hot import HotTable
from penstock.model import arrays
from penstock.model.arrays import VARIABLE_BYTES_MAX, narrow
from penstock.model.keys import KeyCodec
from penstock.model.table_columns import BYTES, Value
from penstock.steps.base import StateSchema


def test_offsets_of_less_than_two_gib_are_the_same_in_32_bits() -> None:
    for ends in ([], [0], [0, 5, VARIABLE_BYTES_MAX]):
        assert narrow(np.array(ends, np.int64)).tolist() == ends


def test_offsets_of_two_gib_are_refused() -> None:
    with pytest.raises(ConfigError, match="2147483648 bytes"):
        narrow(np.array([0, VARIABLE_BYTES_MAX + 1], np.int64))


def test_a_state_gives_no_values_of_two_gib_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table = HotTable(StateSchema("texts", (("word", pa.string()),), (Value("text", BYTES),)))
    rows = table.rows(KeyCodec((pa.string(),), 8).keys([pa.array(["a"])]))
    table.write_bytes("text", rows, pa.array([b"x" * 60]))
    monkeypatch.setattr(arrays, "VARIABLE_BYTES_MAX", 100)
    assert table.read_bytes("text", rows).to_pylist() == [b"x" * 60]
    with pytest.raises(ConfigError, match="120 bytes"):
        table.read_bytes("text", np.repeat(rows, 2))
