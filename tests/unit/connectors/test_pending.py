"""What a split has left to read: the number falls to 0, and what is not known is None and never 0."""

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.base.errors import ConnectorError
from penstock.connectors.followed_folder import FollowedFolder
from penstock.connectors.generator import WordSource
from penstock.connectors.own import OwnSource
from penstock.connectors.parquet_source import ParquetSource
from penstock.connectors.text_source import TextForm, TextSource
from penstock.contract.connectors import WordsSpec
from penstock.contract.graph import Connector, Source
from penstock.contract.ids import Epoch, SplitId
from penstock.contract.manifest import SplitState
from penstock.ports import MeteredReader, Read

FORM = TextForm("json", pa.schema([("n", pa.int64())]))
LINES = b'{"n": 1}\n{"n": 2}\n{"n": 3}\n'


def opened(source: Any, split: int = 0) -> Any:
    reader = source.open(source.splits()[split])
    assert isinstance(reader, MeteredReader)
    return reader


def test_parquet_counts_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": range(10)}), tmp_path / "a.parquet", row_group_size=4)
    reader = opened(ParquetSource(str(tmp_path), ()))
    seen = [reader.pending()]
    while reader.read(3) is not None:
        seen.append(reader.pending())
    assert seen == [(10, None), (7, None), (6, None), (3, None), (2, None), (0, None)]


def test_text_counts_bytes_unless_it_is_packed(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(LINES))
    source = TextSource(str(tmp_path), FORM)
    plain, packed = opened(source), opened(source, 1)
    assert (plain.pending(), packed.pending()) == ((None, 27), (None, None))
    plain.read(1), packed.read(1)
    assert (plain.pending(), packed.pending()) == ((None, 18), (None, None))
    plain.read(2)
    assert plain.pending() == (None, 0)


def test_a_generator_knows_its_end_if_it_has_one() -> None:
    reader = opened(WordSource(WordsSpec(rows=100, keys=5)))
    reader.read(30)
    assert reader.pending() == (70, None)
    assert opened(WordSource(WordsSpec(keys=5))).pending() == (None, None)


def test_a_followed_folder_counts_the_files_of_its_last_look(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_bytes(LINES)
    source = FollowedFolder(str(tmp_path), FORM, every_s=0.1)
    readers = [source.open(state) for state in source.splits()]
    assert {reader.pending() for reader in readers} == {(None, None)}  # nobody has looked yet
    rows = [reader.read(1) for reader in readers]
    left = sum(reader.pending()[1] or 0 for reader in readers)
    assert left == 2 * len(LINES) - 9 * sum(row is not None for row in rows)
    assert all(reader.pending() == (None, 0) for reader, row in zip(readers, rows, strict=True) if row is None)


class Reader:
    """A user's reader without rows."""

    def read(self, max_rows: int) -> Read | None:
        return None

    def state(self) -> SplitState:
        return SplitState(SplitId("a"), "", 0)

    def committed(self, epoch: Epoch, state: SplitState) -> None:
        """Nothing to acknowledge."""

    def close(self) -> None:
        """Nothing to release."""


class Metered(Reader):
    """A user's reader that asks its server, which may fail."""

    left: int | None = 7

    def pending(self) -> tuple[int | None, int | None]:
        if self.left is None:
            raise OSError("no answer")
        return self.left, None


class Own:
    """A user's source of one split."""

    bounded, schema = False, pa.schema([("n", pa.int64())])

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def splits(self) -> list[SplitState]:
        return [self.reader.state()]

    def open(self, state: SplitState) -> Reader:
        return self.reader


def test_a_users_reader_may_say_it() -> None:
    declared = Source(Connector("python"), (), None)
    assert opened(OwnSource("mine", Own(Reader()), declared)).pending() == (None, None)
    metered = Metered()
    reader = opened(OwnSource("mine", Own(metered), declared))
    assert reader.pending() == (7, None)
    metered.left = None
    with pytest.raises(ConnectorError, match=r"source 'mine', partition 'a', pending\(\).*no answer"):
        reader.pending()
