import hashlib
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from penstock_spark import dataset, temperature


def hashes(folder: Path) -> dict[str, str]:
    files = sorted(folder.glob("*.parquet"))
    return {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def test_real_text_becomes_the_same_files_every_time(spark: SparkSession, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.mkdir()
    for number in range(9):
        (text / f"{number}.txt").write_text(f"file {number}\n\n  two  \n" * 50)
    request = dataset.TextRequest(sources=(str(text),), files=4, repeat=2)
    marker = dataset.write(spark, request, tmp_path / "a")
    dataset.write(spark, request, tmp_path / "b")
    assert hashes(tmp_path / "a") == hashes(tmp_path / "b")
    assert marker["rows"] == 2 * 9 * 150
    once = [f"file {n}" if i == 0 else ("", "  two  ")[i - 1] for n in range(9) for _ in range(50) for i in range(3)]
    parts = [pq.read_table(f) for f in sorted((tmp_path / "a").glob("*.parquet"))]
    assert [line for part in parts for line in part["line"].to_pylist()] == once * 2
    assert all(part.schema.names == ["line"] for part in parts)


def test_temperatures_are_written_as_they_are_made(spark: SparkSession, tmp_path: Path) -> None:
    request = temperature.TemperatureRequest(rows=1000, files=3)
    marker = temperature.write(spark, request, tmp_path / "t")
    assert list(marker["files"]) == [f"part-0000{n}.parquet" for n in range(3)]
    read = pq.read_table(tmp_path / "t" / "part-00001.parquet")
    assert read.equals(temperature.rows_of(request, 1))
