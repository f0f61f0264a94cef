"""Rows go to folders by the values of columns, and readers give the columns back."""

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from penstock.base import limits
from penstock.base.errors import ConfigError
from penstock.base.values import replace
from penstock.connectors.file_output import parquet_form
from penstock.connectors.file_sink import FileSink
from penstock.connectors.partitions import NULL, Partitions, values_of
from penstock.connectors.s3.s3_sink import folders_of
from penstock.contract.ids import Attempt, Ordinal, StageIndex, TaskId
from penstock.contract.s3_options import S3Output

ROWS = pa.RecordBatch.from_pylist(
    [
        {"n": 0, "word": "a/b c", "day": date(2026, 11, 26), "yes": True},
        {"n": 1, "word": "ä=%", "day": None, "yes": False},
        {"n": 2, "word": "a/b c", "day": date(2026, 11, 26), "yes": True},
        {"n": 3, "word": None, "day": date(2026, 11, 27), "yes": True},
        {"n": 4, "word": "", "day": date(2026, 11, 27), "yes": True},
    ],
    schema=pa.schema([("n", pa.int64()), ("word", pa.string()), ("day", pa.date32()), ("yes", pa.bool_())]),
)


def numbers(columns: str, rows: pa.RecordBatch = ROWS) -> dict[str, list[int]]:
    split = Partitions(columns, rows.schema).split(rows)
    return {folder: piece.column("n").to_pylist() for folder, piece in split}


def test_rows_are_in_the_folder_of_their_values_in_order() -> None:
    assert numbers("word") == {"word=a%2Fb%20c": [0, 2], "word=%C3%A4%3D%25": [1], f"word={NULL}": [3, 4]}
    assert numbers("day, yes") == {
        "day=2026-11-26/yes=true": [0, 2],
        f"day={NULL}/yes=false": [1],
        "day=2026-11-27/yes=true": [3, 4],
    }
    assert numbers("yes", ROWS.slice(2)) == {"yes=true": [2, 3, 4]}
    assert numbers("word", ROWS.slice(0, 0)) == {}


def test_a_text_that_reads_like_a_null_is_a_text() -> None:
    rows = pa.record_batch({"n": [0, 1], "word": [NULL, None]})
    found = {folder: values_of(folder)["word"] for folder in numbers("word", rows)}
    assert list(found.values()) == [NULL, None]
    assert len(found) == 2


def test_a_column_of_a_dictionary_is_one_of_its_values() -> None:
    words = ROWS.column("word").dictionary_encode()
    assert list(numbers("word", ROWS.set_column(1, "word", words))) == list(numbers("word"))


def test_arrow_gives_the_columns_back(tmp_path: Path) -> None:
    partitions = Partitions("word,day", ROWS.schema)
    assert partitions.schema.names == ["n", "yes"]
    for number, (folder, rows) in enumerate(partitions.split(ROWS)):
        (tmp_path / folder).mkdir(parents=True)
        pq.write_table(pa.Table.from_batches([rows]), tmp_path / folder / f"{number}.parquet")
    layout = ds.partitioning(pa.schema([("word", pa.string()), ("day", pa.date32())]), flavor="hive")
    found = ds.dataset(tmp_path, partitioning=layout).to_table().select(ROWS.schema.names).sort_by("n")
    due = [{**row, "word": row["word"] or None} for row in ROWS.to_pylist()]
    assert found.to_pylist() == due


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("wrod", "partitionBy: unknown column 'wrod': did you mean 'word'"),
        ("price", "column 'price' is double: it takes texts, whole numbers, booleans and dates"),
        ("price2,word", "unknown column"),
    ],
)
def test_columns_that_make_no_folders_are_refused(columns: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Partitions(columns, pa.schema([("word", pa.string()), ("price", pa.float64())]))


def test_a_column_has_to_be_left_for_the_files() -> None:
    with pytest.raises(ConfigError, match="leave one for the files"):
        Partitions("word", pa.schema([("word", pa.string())]))


def test_a_value_that_is_too_long_for_the_name_of_an_object_is_refused() -> None:
    schema = pa.schema([("n", pa.int64()), ("word", pa.string())])
    folders = folders_of(S3Output("s3://lake/words", partition_by="word"), schema)
    assert folders is not None
    assert len(list(folders.split(pa.record_batch([[1], ["ä" * 130]], schema=schema)))) == 1  # six bytes each
    with pytest.raises(ConfigError, match=r"s3 sink: partitionBy: .* name has 845 bytes, like 'word=%C3.*takes 809"):
        list(folders.split(pa.record_batch([[1], ["ä" * 140]], schema=schema)))


def test_too_many_folders_at_once_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SINK_FOLDERS_MAX", 2)
    partitions = Partitions("word", ROWS.schema)
    form = replace(parquet_form(partitions.schema), split=partitions.split)
    sink = FileSink("out", str(tmp_path), form)
    sink.claim("job", fresh=True)
    writer = sink.writer(TaskId(StageIndex(1), Ordinal(0), 0), Attempt(1))
    writer.write(ROWS.slice(0, 2))
    with pytest.raises(ConfigError, match="sink 'out': rows of one task go to more than 2 folders at once"):
        writer.write(ROWS.slice(2))
    writer.close()
    sink.close()
