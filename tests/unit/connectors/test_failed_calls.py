"""Sources of files and objects lose nothing and repeat nothing, whichever of their calls fails once.

The store of objects is the client's own, in memory.
"""

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

from penstock.connectors import text_lines
from penstock.connectors.followed_folder import FollowedFolder
from penstock.connectors.input_files import InputPath
from penstock.connectors.parquet_source import ParquetSource
from penstock.connectors.s3 import object_path
from penstock.connectors.s3.object_folder import ObjectFolder
from penstock.connectors.s3.object_path import ObjectPath
from penstock.connectors.text_source import TextForm, TextSource
from penstock.contract.columns import Column
from penstock.ports import Source
from tests.support.failed_calls import check_failures
from tests.support.long_tests import count, long_only

SCHEMA = pa.schema([("n", pa.int64()), ("word", pa.string())])
ROWS = 12
EVERY, EVERY_OF_LANES = count(3, 1), count(11, 1)  # calls of a source
BLOCK_BYTES = 200  # of a request, and of a text: a file has some
WIDE = 20_000  # characters of a word: Arrow reads 64 KiB at the end of a file of Parquet at once


def words(begin: int, width: int = 0) -> list[dict[str, object]]:
    return [{"n": n, "word": f"w{n}".ljust(width, "-")} for n in range(begin, begin + ROWS)]


def parquet(begin: int) -> bytes:
    out, table = io.BytesIO(), pa.Table.from_pylist(words(begin, WIDE), SCHEMA)
    pq.write_table(table, out, row_group_size=4, compression="none", use_dictionary=False)
    return out.getvalue()


def json_lines(begin: int) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in words(begin))


def csv(begin: int) -> bytes:
    return b"word,n\n" + b"".join(f"{row['word']},{row['n']}\n".encode() for row in words(begin))


def packed(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


CONTENT: dict[str, Callable[[int], bytes]] = {
    ".parquet": parquet,
    ".jsonl": json_lines,
    ".csv": csv,
    ".jsonl.gz": lambda begin: gzip.compress(json_lines(begin)),
    ".csv.zst": lambda begin: packed(csv(begin)),
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_path, "AHEAD_BYTES", BLOCK_BYTES)
    monkeypatch.setattr(text_lines, "TEXT_BLOCK_BYTES", BLOCK_BYTES)


def folder(suffix: str) -> ObjectPath:
    store = MemoryStore()
    for number, name in enumerate("ab"):
        store.put(name + suffix, CONTENT[suffix](number * ROWS))
    return ObjectPath(ObjectFolder("s3://b/in", lambda: store))


def source(path: InputPath, suffix: str) -> Source:
    if suffix == ".parquet":
        return ParquetSource(path, (Column("n", "int64"), Column("word", "string")))
    return TextSource(path, text_form(suffix))


def text_form(suffix: str) -> TextForm:
    return TextForm("json" if suffix.startswith(".jsonl") else "csv", SCHEMA)


OTHERS = [pytest.param(suffix, marks=long_only) for suffix in (".csv", ".jsonl.gz", ".csv.zst")]


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", *OTHERS])
def test_objects_that_are_read_once(suffix: str) -> None:
    path = folder(suffix)
    assert check_failures(lambda: source(path, suffix), every=EVERY) > 20


@pytest.mark.parametrize("suffix", [".jsonl", *OTHERS])
def test_objects_of_a_folder_that_is_followed(suffix: str) -> None:
    path, form = folder(suffix), text_form(suffix)
    assert check_failures(lambda: FollowedFolder(path, form, every_s=0.0), every=EVERY_OF_LANES) > 20


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_files_of_a_disk(tmp_path: Path, suffix: str) -> None:
    for number, name in enumerate("ab"):
        (tmp_path / (name + suffix)).write_bytes(CONTENT[suffix](number * ROWS))
    assert check_failures(lambda: source(tmp_path, suffix)) > 5
