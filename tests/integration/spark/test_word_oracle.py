"""The oracle must find every kind of fault: an output is made right, then broken in one place."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from penstock.base.errors import ConfigError, StateError
from penstock_spark import word_oracle

LINES = ["a b a", "", "  ", None, "a  c ", "b", " lead", "a b a b", "\u00fc \u00fc"]
Rows = list[tuple[str | None, int | None]]
FILES_NAMES = ("000000000001-s.parquet", "000000000002-s.parquet", "000000000010-s.parquet")


def words_of(line: str | None) -> list[str]:
    words = [] if line is None else line.split(" ")
    return words[:-1] if words and words[-1] == "" else words


def right_output() -> Rows:
    seen: Counter[str] = Counter()
    rows: Rows = []
    for word in (w for line in LINES for w in words_of(line)):
        seen[word] += 1
        rows.append((word, seen[word]))
    return rows


def write(folder: Path, rows: Rows) -> Path:
    folder.mkdir()
    third = len(rows) // 3
    cuts = [rows[:third], rows[third : 2 * third], rows[2 * third :]]
    for name, part in zip(FILES_NAMES, cuts, strict=True):
        words = pa.array([w for w, _ in part], pa.string())
        counts = pa.array([c for _, c in part], pa.int64())
        pq.write_table(pa.table({"word": words, "count": counts}), folder / name)
    return folder


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for number, part in enumerate((LINES[:4], LINES[4:])):
        table = pa.table({"line": pa.array(part, pa.string())})
        pq.write_table(table, folder / f"part-{number}.parquet")
    return folder


def test_a_right_output_is_exact(spark: SparkSession, dataset: Path, tmp_path: Path) -> None:
    verdict = word_oracle.check(spark, dataset, write(tmp_path / "out", right_output()))
    assert verdict.exact
    assert verdict.rows_expected == verdict.rows_found == len(right_output())
    assert verdict.words_expected == verdict.words_found == 6
    assert verdict.first == ()


def lost(rows: Rows) -> Rows:
    return [r for r in rows if r != ("a", 3)]


def lost_at_the_end(rows: Rows) -> Rows:
    return [r for r in rows if r != ("a", 5)]


def repeated(rows: Rows) -> Rows:
    return [r for row in rows for r in ([row, row] if row == ("b", 2) else [row])]


def too_many(rows: Rows) -> Rows:
    return [*rows, ("b", 5)]


def swapped(rows: Rows) -> Rows:
    change = {("a", 2): ("a", 3), ("a", 3): ("a", 2)}
    return [change.get((str(w), c or 0), (w, c)) for w, c in rows]


def changed(rows: Rows) -> Rows:
    return [("A", 1) if row == ("a", 1) else row for row in rows]


def nulled(rows: Rows) -> Rows:
    return [(None, 1) if row == ("c", 1) else row for row in rows]


def uncounted(rows: Rows) -> Rows:
    return [("b", None) if row == ("b", 1) else row for row in rows]


@pytest.mark.parametrize(
    ("fault", "word", "problem"),
    [
        (lost, "a", "after count 2 comes 4: rows are lost"),
        (lost_at_the_end, "a", "ends at 4 of 5: rows are missing at the end"),
        (repeated, "b", "after count 2 comes 2: rows are repeated or out of order"),
        (too_many, "b", "goes on to 5 beyond 4: there are rows too many"),
        (swapped, "a", "after count 1 comes 3: rows are lost"),
        (changed, "A", "is not in the dataset"),
        (nulled, None, "is not in the dataset"),
        (uncounted, "b", "after count 0 comes null: rows are repeated or out of order"),
    ],
)
def test_one_broken_row_is_found(
    spark: SparkSession,
    dataset: Path,
    tmp_path: Path,
    fault: Callable[[Rows], Rows],
    word: str | None,
    problem: str,
) -> None:
    verdict = word_oracle.check(spark, dataset, write(tmp_path / "out", fault(right_output())))
    assert not verdict.exact
    assert {d.word: d.problem for d in verdict.first}[word] == problem


def test_order_between_files_is_that_of_their_names(spark: SparkSession, dataset: Path, tmp_path: Path) -> None:
    output = write(tmp_path / "out", right_output())
    first, second = output / FILES_NAMES[0], output / FILES_NAMES[1]
    first.rename(output / "x")
    second.rename(first)
    (output / "x").rename(second)
    assert not word_oracle.check(spark, dataset, output).exact


def test_an_empty_output_is_not_exact(spark: SparkSession, dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    verdict = word_oracle.check(spark, dataset, tmp_path / "out")
    assert not verdict.exact
    assert verdict.rows_found == 0
    assert {d.problem for d in verdict.first} == {"is missing from the output"}


def test_unreadable_output_names_its_file(spark: SparkSession, dataset: Path, tmp_path: Path) -> None:
    output = write(tmp_path / "out", right_output())
    whole = (output / FILES_NAMES[1]).read_bytes()
    (output / FILES_NAMES[1]).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StateError, match=r"output file .*000000000002-s\.parquet cannot be read"):
        word_oracle.check(spark, dataset, output)


def test_a_dataset_without_the_column_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "in" / "p.parquet")
    with pytest.raises(ConfigError, match="has no column 'line'"):
        word_oracle.check(spark, tmp_path / "in", write(tmp_path / "out", right_output()))
