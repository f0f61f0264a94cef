"""Values of 2 GiB and more are refused: their offsets would wrap around, and name other bytes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError
from penstock.contract.keygroups import Range
from penstock.contract.settings import StateSettings
from penstock.keyed_state.hot import HotTable
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.model import arrays
from penstock.model.arrays import NO_BYTES, VARIABLE_BYTES_MAX, Bytes, narrow
from penstock.model.keys import EncodedKeys, KeyCodec
from penstock.model.rows import RowCodec
from penstock.model.subkeys import SubkeyCodec
from penstock.model.table_columns import BYTES, Value
from penstock.steps.base import ChildSchema, StateSchema


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


@pytest.mark.parametrize(
    "decoded",
    [
        lambda data: RowCodec((pa.string(),)).decode(data, np.zeros(2, np.int64)),
        lambda data: KeyCodec((pa.string(), pa.string()), 8).columns(
            EncodedKeys(np.zeros(3, np.int64), data, np.zeros(2, np.bool_))
        ),
    ],
)
def test_texts_of_rows_and_keys_that_have_two_gib_together_are_refused(decoded: Callable[[Bytes], Any]) -> None:
    """Their lengths are read before any of their bytes: here two rows are at one place."""
    data = np.frombuffer(b"\x01" + (1 << 30).to_bytes(4, "little") + bytes(32), np.uint8)
    with pytest.raises(ConfigError, match=f"{2**31} bytes"):
        decoded(data)


def test_subkeys_of_two_gib_are_refused() -> None:
    with pytest.raises(ConfigError, match=f"{2**31} bytes"):
        SubkeyCodec(pa.string()).decode(np.array([0, 2**31], np.int64), NO_BYTES)


def test_keys_of_entries_of_two_gib_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long key is a part of the key of each of its entries."""
    backend = KeyedStateBackend(StateSettings(), (Range(0, 8),), 8, tmp_path)
    child = ChildSchema("items", pa.int64())
    table = backend.open(StateSchema("kept", (("word", pa.string()),), (), children=(child,)))
    parents = np.repeat(table.rows(KeyCodec((pa.string(),), 8).keys([pa.array(["x" * 40])])), 3)
    monkeypatch.setattr(arrays, "VARIABLE_BYTES_MAX", 110)
    table.child("items").rows(parents[:2], pa.array([1, 2]))
    with pytest.raises(ConfigError, match="156 bytes"):
        table.child("items").rows(parents, pa.array([1, 2, 3]))
    backend.close()
