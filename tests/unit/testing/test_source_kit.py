"""The kit passes sources that keep the rules, and names the rule that a faulty one breaks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.connectors.generator import WordSource
from penstock.connectors.parquet_source import ParquetSource
from penstock.contract.columns import Column
from penstock.contract.connectors import WordsSpec
from penstock.contract.ids import Epoch, SplitId
from penstock.contract.manifest import SplitState
from penstock.ports import Read
from penstock.testing import connectors as kit

ROWS = 23
SCHEMA = pa.schema([("n", pa.int64())])


@dataclass
class Numbers:
    """A source of the numbers below ``rows``; each fault is one that a user's source may have."""

    fault: str = ""
    bounded: bool = True
    rows: list[int] = field(default_factory=lambda: list(range(ROWS)))
    schema: pa.Schema = SCHEMA
    opened: Iterator[int] = field(default_factory=lambda: iter(range(1_000_000)))

    def splits(self) -> list[SplitState]:
        names = ["a", "a"] if self.fault == "twins" else ["a"]
        if self.fault == "unstable":
            names = [f"split-{id(self)}"]
        spec: Any = {} if self.fault == "spec" else "{}"
        return [SplitState(SplitId(name), spec, 0) for name in names]

    def open(self, state: SplitState) -> "NumbersReader":
        return NumbersReader(self, state, next(self.opened))


class NumbersReader:
    """Reads the numbers from an offset on."""

    def __init__(self, source: Numbers, first: SplitState, opened: int) -> None:
        skipped = {"loses": 1, "repeats": -1}.get(source.fault, 0) if first.offset else 0
        self.source, self.first, self.opened = source, first, opened
        self.at, self.skipped = first.offset, skipped

    def read(self, max_rows: int) -> Read | None:
        at = self.at + self.skipped
        size = max_rows + (self.source.fault == "greedy")
        found = self.source.rows[at : at + size]
        if not found:
            return None
        if self.source.fault == "reshuffles":
            found = sorted(found, key=lambda n: -n)
        if self.source.fault == "remembers" and self.opened:
            found = [n + 1 for n in found]
        first, self.at = self.at, self.at + len(found)
        kind = pa.int32() if self.source.fault == "other-columns" else pa.int64()
        rows: Any = (pa.table if self.source.fault == "table" else pa.record_batch)({"n": pa.array(found, kind)})
        read: Any = Read(rows, first + (self.source.fault == "gap"))
        given: Any = (rows, first) if self.source.fault == "tuple" else read
        return cast("Read", given)

    def state(self) -> SplitState:
        ended = self.source.bounded and self.at + self.skipped >= len(self.source.rows)
        ended = ended and self.source.fault != "endless"
        at: Any = float(self.at) if self.source.fault == "floats" else self.at - (self.source.fault == "behind")
        return SplitState(self.first.split, "{}", at, ended)

    def committed(self, epoch: Epoch, state: SplitState) -> None:
        if self.source.fault == "unheard":
            raise RuntimeError("committed() was called")

    def close(self) -> None:
        if self.source.fault == "closes-once" and self.at < 0:
            raise RuntimeError("closed twice")
        self.at = -1


def test_a_source_that_keeps_the_rules_passes() -> None:
    assert kit.check_source(Numbers) == ROWS


@pytest.mark.parametrize(
    ("fault", "rule", "says"),
    [
        ("twins", "splits-stable", "two splits have one name"),
        ("unstable", "splits-stable", "two calls of splits"),
        ("loses", "restore", "rows are lost"),
        ("repeats", "restore", "rows are repeated"),
        ("remembers", "same-rows", "read row by row, beside another reader"),
        ("reshuffles", "same-rows", "pieces of 7"),
        ("greedy", "bounded-reads", "8 rows, 7 were asked for"),
        ("other-columns", "schema", "n: int32"),
        ("gap", "positions-grow", "gave rows from 1 on, 0 was next"),
        ("behind", "positions-grow", "its state says 22, 23 is next"),
        ("endless", "ends", "no rows and no end at position 23"),
        ("spec", "splits", "split 'a': its spec is dict, str is due"),
        ("table", "reads", r"split 'a': read\(\) gave rows as Table; pa\.RecordBatch is due"),
        ("tuple", "reads", r"split 'a': read\(\) gave tuple; ps\.Read or None is due"),
        ("floats", "positions-grow", "split 'a': in its state its offset is float, int is due"),
    ],
)
def test_a_faulty_source_is_told_by_the_rule_that_it_breaks(fault: str, rule: str, says: str) -> None:
    with pytest.raises(kit.RuleBroken, match=says) as broken:
        kit.check_source(lambda: Numbers(fault))
    assert broken.value.rule == rule


def test_a_source_that_may_be_closed_once_only_is_told() -> None:
    with pytest.raises(RuntimeError, match="closed twice"):
        kit.check_source(lambda: Numbers("closes-once"))


def test_a_source_hears_of_a_commit() -> None:
    with pytest.raises(RuntimeError, match=r"committed\(\) was called"):
        kit.check_source(lambda: Numbers("unheard"))


def test_a_source_without_an_end_goes_on_with_rows_that_come_later() -> None:
    rows = list(range(ROWS))
    assert kit.check_source(lambda: Numbers(bounded=False, rows=rows), lambda: rows.append(99)) == ROWS + 1
    with pytest.raises(kit.RuleBroken, match="rows that were read have changed") as broken:
        kit.check_source(lambda: Numbers(bounded=False, rows=rows), lambda: rows.insert(0, 5))
    assert broken.value.rule == "same-rows"


def test_an_input_without_rows_checks_nothing_and_says_so() -> None:
    with pytest.raises(kit.RuleBroken, match="the input has 0 rows"):
        kit.check_source(lambda: Numbers(rows=[]))


def test_bad_input_that_nobody_names_is_told() -> None:
    with pytest.raises(kit.RuleBroken, match=f"{ROWS} rows were read and no error was raised; one that says 'x.csv'"):
        kit.check_bad_input(Numbers, "x.csv")

    class Unnamed(Numbers):
        def open(self, state: SplitState) -> NumbersReader:
            raise ValueError("it is broken")

    with pytest.raises(kit.RuleBroken, match=r"the error does not say 'x\.csv': ValueError: it is broken"):
        kit.check_bad_input(Unnamed, "x.csv")


def parquet(folder: Path) -> ParquetSource:
    return ParquetSource(str(folder), (Column("line", "string"),))


def make_files(folder: Path) -> None:
    for file in range(3):
        table = pa.table({"line": [f"{file} {row}" for row in range(60 * file)]})  # the first one has no rows
        pq.write_table(table, folder / f"{file}.parquet", row_group_size=25)


def test_the_parquet_source(tmp_path: Path) -> None:
    make_files(tmp_path)
    assert kit.check_source(lambda: parquet(tmp_path)) == 180


@pytest.mark.parametrize(
    "spoil",
    [
        Path.unlink,
        lambda file: file.write_bytes(file.read_bytes()[:-10]),
        lambda file: file.write_bytes(file.read_bytes() + b"more"),
        lambda file: pq.write_table(pa.table({"line": ["x"] * 120}), file),
    ],
    ids=["gone", "shrank", "grew", "rewritten"],
)
def test_the_parquet_source_names_a_file_that_changes(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    make_files(tmp_path)
    kit.check_bad_input(lambda: parquet(tmp_path), "2.parquet", lambda: spoil(tmp_path / "2.parquet"))


def test_the_parquet_source_names_a_file_that_is_none(tmp_path: Path) -> None:
    make_files(tmp_path)
    (tmp_path / "1.parquet").write_text("no Parquet")
    kit.check_bad_input(lambda: parquet(tmp_path), "1.parquet")


def test_the_generator() -> None:
    assert kit.check_source(lambda: WordSource(WordsSpec(rows=150, splits=2, payload=8, keys=20))) == 300
