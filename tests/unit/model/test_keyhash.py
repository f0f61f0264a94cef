"""Routing by key: groups, owners, stable splits, and keys that are refused with advice."""

import numpy as np
import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError
from penstock.model.kernels import routing
from penstock.model.keys import KeyCodec, check_key_columns, destinations, hash_columns, key_groups

WORDS = pa.record_batch({"word": ["a", "b", None, "a", "", "c"], "n": [1, 2, 3, 4, 5, 6]})


def test_a_group_is_the_positive_remainder_of_the_signed_hash() -> None:
    hashes = np.array([0, 5, 2**64 - 1, 2**63, 2**63 + 1], np.uint64)
    signed = hashes.view(np.int64).tolist()
    for groups in (1, 7, 100, 256, 32768):
        assert key_groups(hashes, groups).tolist() == [h % groups for h in signed]


@pytest.mark.parametrize("groups", [16, 100])
def test_owners_are_looked_up_by_group(groups: int) -> None:
    hashes = hash_columns([pa.array([f"w{i}" for i in range(300)])])
    table, owners = np.arange(groups, dtype=np.int32) * 3, np.empty(300, np.int32)
    rows = np.ones(groups, np.int64)
    routing.look_up(hashes, table, rows, owners)
    found = key_groups(hashes, groups)
    assert owners.tolist() == [3 * g for g in found.tolist()]
    assert (rows - 1).tolist() == np.bincount(found, minlength=groups).tolist()


@pytest.mark.parametrize("groups", [16, 100])
@pytest.mark.parametrize(
    "columns",
    [
        [pa.array(["", None, "a", "word" * 20, "ü"] * 9).slice(2)],
        [pa.chunked_array([["a", None], ["b"]])],
        [pa.array([b"a", b"b", None], pa.large_binary())],
        [pa.array([1, -1, None])],
        [pa.array(["a", None, "b"]), pa.array([1, 2, None])],
        [pa.array([], pa.string())],
    ],
    ids=["text", "chunks", "large", "numbers", "several", "nothing"],
)
def test_a_lone_text_key_goes_where_any_key_goes(columns: list[pa.Array], groups: int) -> None:
    wanted = key_groups(hash_columns(columns), groups)
    table = np.arange(groups, dtype=np.int32)[::-1].copy()
    rows = np.zeros(groups, np.int64)
    assert destinations(columns, table, rows).tolist() == table[wanted].tolist()
    assert rows.tolist() == np.bincount(wanted, minlength=groups).tolist()
    keys = KeyCodec(tuple(c.type for c in columns), groups).keys(columns)
    assert keys.hashes.tolist() == hash_columns(columns).tolist()
    assert keys.groups.tolist() == wanted.tolist()


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        (pa.uint32(), "cast it to a signed integer"),
        (pa.timestamp("ns"), r"cast it to timestamp\('us'\)"),
        (pa.date64(), "date32"),
        (pa.decimal128(19, 0), "at most 18 digits"),
        (pa.decimal256(10, 0), "128 bits"),
        (pa.list_(pa.int64()), "use its fields"),
        (pa.struct([("a", pa.int64())]), "use its fields"),
        (pa.float16(), "cast it"),
        (pa.null(), "cast it"),
        (pa.dictionary(pa.int8(), pa.uint8()), "signed integer"),
    ],
    ids=str,
)
def test_types_without_a_rule_are_refused_with_advice(kind: pa.DataType, advice: str) -> None:
    schema = pa.schema([("fine", pa.string()), ("bad", kind)])
    with pytest.raises(ConfigError, match=rf"'bad'.*{advice}"):
        check_key_columns(schema, ["fine", "bad"])
    with pytest.raises(ConfigError):
        hash_columns([pa.nulls(2, kind)])


def test_a_missing_key_column_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'word'"):
        check_key_columns(WORDS.schema, ["wrod"])


def test_a_repeated_or_absent_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="repeated"):
        check_key_columns(WORDS.schema, ["word", "word"])
    with pytest.raises(ConfigError, match="at least one"):
        check_key_columns(WORDS.schema, [])


def test_bytes_at_an_odd_address_hash_alike() -> None:
    raw = np.arange(5, dtype=np.int64).tobytes()
    odd = pa.py_buffer(b"x" + raw).slice(1)
    array = pa.Array.from_buffers(pa.int64(), 5, [None, odd])
    assert (hash_columns([array]) == hash_columns([pa.array(range(5))])).all()
