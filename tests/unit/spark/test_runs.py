from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.base.errors import StateError
from penstock_spark import runs


def rows(*pairs: tuple[str | None, int | None]) -> list[tuple[object, ...]]:
    words = pa.array([w for w, _ in pairs], pa.string())
    counts = pa.array([c for _, c in pairs], pa.int64())
    batch = runs.runs_of(words, counts, "f", 100)
    found = [(r["word"], r["row"], r["first"], r["last"]) for r in batch.to_pylist()]
    return sorted(found, key=lambda r: (str(r[0]), r[1]))


def test_a_correct_sequence_is_one_run_a_word() -> None:
    assert rows(("a", 1), ("b", 5), ("a", 2), ("b", 6), ("a", 3)) == [
        ("a", 100, 1, 3),
        ("b", 101, 5, 6),
    ]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((1, 3), [(100, 1, 1), (101, 3, 3)]),  # a row is lost
        ((1, 2, 2), [(100, 1, 2), (102, 2, 2)]),  # a row is repeated
        ((2, 1), [(100, 2, 2), (101, 1, 1)]),  # two rows are swapped
        ((1, None, 2), [(100, 1, 1), (101, runs.NO_COUNT, runs.NO_COUNT), (102, 2, 2)]),
    ],
)
def test_every_wrong_row_begins_another_run(
    counts: tuple[int | None, ...], expected: list[tuple[int, int, int]]
) -> None:
    assert rows(*(("a", c) for c in counts)) == [("a", *run) for run in expected]


def test_a_null_word_has_runs_of_its_own() -> None:
    assert rows((None, 1), ("None", 1), (None, 2)) == [(None, 100, 1, 2), ("None", 101, 1, 1)]


def test_no_rows_have_no_runs() -> None:
    assert rows() == []


def test_another_schema_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "o.parquet"
    pq.write_table(pa.table({"word": ["a"], "count": pa.array([1], pa.int32())}), file)
    with pytest.raises(StateError, match="column 'count' is int32, not int64"):
        list(runs.runs_in_file(file))


def test_a_truncated_file_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "o.parquet"
    file.write_bytes(b"PAR1 but no more")
    with pytest.raises(StateError, match=r"o\.parquet cannot be read"):
        list(runs.runs_in_file(file))
