"""Key hashes never change: stored state is found by them. See keyhash/build.py."""

import json
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.model.keys import hash_columns

VECTORS = json.loads((Path(__file__).parent / "keyhash" / "vectors.json").read_text())


def column(kind: str, value: Any) -> pa.Array:
    if kind.startswith("decimal128"):
        exact = None if value is None else Decimal(value)
        return pa.array([exact], pa.decimal128(18, 3))
    if kind == "date32":
        day = None if value is None else date(1970, 1, 1) + timedelta(days=value)
        return pa.array([day], pa.date32())
    if kind in ("float", "double") and value is not None:
        value = float(value)
    if kind == "binary" and value is not None:
        value = bytes.fromhex(value)
    return pa.array([value], pa.type_for_alias(kind))


@pytest.mark.parametrize("row", VECTORS, ids=lambda row: str(row["columns"])[:60])
def test_the_hash_is_that_of_the_vector(row: dict[str, Any]) -> None:
    hashes = hash_columns([column(kind, value) for kind, value in row["columns"]])
    assert hashes.view("int64").tolist() == [row["xxhash64"]]


def test_the_vectors_cover_every_rule() -> None:
    kinds = {kind for row in VECTORS for kind, _ in row["columns"]}
    assert len(kinds) == 13
    assert any(len(row["columns"]) > 3 for row in VECTORS)
