"""The examples of applications, with input and oracle by Spark: exact through kills and a rescale 2 -> 3 -> 2."""

import shutil
from collections import Counter
from datetime import UTC
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from penstock_spark import equipment, fraud, linear_road, linear_road_oracle, spike
from tests.integration.spark.answers import check_fraud, check_linear_road, write_model, written
from tests.integration.through_kills import run_example_through_kills
from tests.support.long_tests import long_only


def test_fraud_is_exact_through_kills_and_rescales(spark: SparkSession, tmp_path: Path) -> None:
    request = fraud.FraudRequest(rows=12_000, files=4, entities=300, unknown_share=0.01)
    fraud.write(spark, request, tmp_path / "in")
    model = write_model(tmp_path / "model.csv")
    places = {name: tmp_path / name for name in ("output", "dead_letters")} | {"input": tmp_path / "in"}
    run_example_through_kills("fraud", tmp_path, model=tmp_path / "model.csv", rate=1000, **places)

    check_fraud(spark, tmp_path / "in", tmp_path / "output", model)
    unknown = pq.read_table(tmp_path / "dead_letters")
    rows = pq.read_table(tmp_path / "in")
    expected = [row for row in rows.to_pylist() if row["state"] == fraud.UNKNOWN]
    assert Counter(unknown["transaction_id"].to_pylist()) == Counter(row["transaction_id"] for row in expected)
    assert len(expected) > 50
    assert set(unknown["error"].to_pylist()) == {
        "UnfitError: Transaction.state: '???' is none of the texts of the Enum"
    }


def as_text(folder: Path, target: Path) -> None:
    """Write the files of a dataset as CSV, with a column more."""
    target.mkdir()
    for file in folder.glob("*.parquet"):
        table = pq.read_table(file)
        pa.csv.write_csv(table.add_column(0, "light", [pa.array([320.65] * len(table))]), target / f"{file.stem}.csv")


@pytest.mark.parametrize("form", [pytest.param("parquet", marks=long_only), "csv"])
def test_spike_is_exact_through_kills_and_rescales(spark: SparkSession, tmp_path: Path, form: str) -> None:
    request = spike.SpikeRequest(rows=12_000, files=4, motes=8)
    spike.write(spark, request, tmp_path / "in")
    if form == "csv":
        as_text(tmp_path / "in", tmp_path / "text")
    source = tmp_path / ("in" if form == "parquet" else "text")
    run_example_through_kills("spike", tmp_path, input=source, output=tmp_path / "output", format=form, rate=1000)

    found = spike.spikes(spark, tmp_path / "in").selectExpr(
        "mote", "unix_micros(cast(ts as timestamp)) as ts", "temperature", "average"
    )
    expected = Counter(tuple(row) for row in found.collect())
    assert expected.total() > 100
    assert written(tmp_path / "output") == expected


MACHINES = equipment.EquipmentRequest(
    rows=12_000,
    files=4,
    step_ns=60_000_000_000,
    toggle_ns=(1_200_000_000_000, 4_800_000_000_000),
    delay_ns=(180_000_000_000, 900_000_000_000),
)


def write_disturbed(clean: Path, folder: Path) -> None:
    """Copy machines. To the first one, add a reading whose time goes back and two changes of a valve alone."""
    shutil.copytree(clean, folder)
    rows = pq.read_table(clean / "part-00000.parquet").to_pylist()
    changed = [n for n in range(1, len(rows)) if rows[n]["bm08"] != rows[n - 1]["bm08"]]
    alone = changed[3] + 2
    assert rows[alone]["bm05"] == rows[changed[3]]["bm05"], "no change of the sensor waits"
    late = {**rows[1000], "ts": rows[1000]["ts"] - 1} | {bit: not rows[1000][bit] for bit in equipment.BITS}
    rows[alone]["bm08"] = not rows[alone]["bm08"]
    rows.insert(1001, late)
    pq.write_table(pa.Table.from_pylist(rows, equipment.SCHEMA), folder / "part-00000.parquet")


@long_only
def test_equipment_is_exact_through_kills_and_rescales(spark: SparkSession, tmp_path: Path) -> None:
    equipment.write(spark, MACHINES, tmp_path / "in")
    write_disturbed(tmp_path / "in", tmp_path / "disturbed")
    places = {name: tmp_path / name for name in ("output", "dead_letters")}
    run_example_through_kills("equipment", tmp_path, input=tmp_path / "disturbed", machines="true", rate=800, **places)

    equipment.view(spark, tmp_path / "in")
    delays = Counter(tuple(row) for row in equipment.delays(spark).collect())
    assert delays.total() > 500
    assert written(tmp_path / "output" / "delays") == delays
    alarms = Counter(tuple(row) for row in equipment.alarms(spark).collect())
    assert alarms.total() > 100
    assert written(tmp_path / "output" / "alarms") == alarms
    trends = Counter(equipment.trends(spark))
    assert min(row[2] - row[4] for row in trends) < equipment.DAY_NS // 2 < max(row[2] - row[4] for row in trends)
    assert written(tmp_path / "output" / "trends") == trends
    letters = pq.read_table(tmp_path / "dead_letters")
    assert sorted(letters["error_step"].to_pylist()) == ["delays", "delays", "edges"]
    assert sum("time goes back" in text for text in letters["error"].to_pylist()) == 1
    assert sum("the valve of bm05 changes" in text for text in letters["error"].to_pylist()) == 2


TRAFFIC = linear_road.LinearRoadRequest(
    rows=12_000, files=2, segments=4, seconds=480, accident_share=0.02, question_share=0.05
)


def write_erring(clean: Path, folder: Path) -> list[dict[str, int]]:
    """Copy traffic. Add reports that cannot be to the first file, and return them."""
    shutil.copytree(clean, folder)
    rows = pq.read_table(clean / "part-00000.parquet").to_pylist()
    reports = [n for n, row in enumerate(rows) if row["Type"] == 0]
    places = [reports[len(reports) * n // 5] for n in range(1, 5)]
    changes = {"Seg": rows[places[0]]["Seg"] + 1}, {"Time": rows[places[1]]["Time"] - 1}, {"Seg": 100}, {"Type": 7}
    erring = [rows[place] | change for place, change in zip(places, changes, strict=True)]
    for place, row in reversed(list(zip(places, erring, strict=True))):
        rows.insert(place + 1, row)
    pq.write_table(pa.Table.from_pylist(rows, linear_road.SCHEMA), folder / "part-00000.parquet")
    return erring


@long_only
def test_linear_road_is_exact_through_kills_and_rescales(spark: SparkSession, tmp_path: Path) -> None:
    linear_road.write(spark, TRAFFIC, tmp_path / "in")
    erring = write_erring(tmp_path / "in", tmp_path / "erring")
    places = {name: tmp_path / name for name in ("output", "dead_letters")}
    run_example_through_kills("linear_road", tmp_path, input=tmp_path / "erring", rate=800, **places)

    check_linear_road(spark, tmp_path / "in", tmp_path / "output")
    letters = pq.read_table(tmp_path / "dead_letters").to_pylist()
    times = {(row["VID"], int(row["Time"].replace(tzinfo=UTC).timestamp())) for row in letters}
    assert times == {(row["VID"], row["Time"]) for row in erring}
    assert len(letters) == len(erring)
    assert sum("at once" in row["error"] for row in letters) == 1
    assert sum("goes back in time, by 1 s" in row["error"] for row in letters) == 1


@long_only
def test_routing_sends_three_notifications_for_each_report(spark: SparkSession, tmp_path: Path) -> None:
    linear_road.write(spark, TRAFFIC, tmp_path / "in")
    places = {"input": tmp_path / "in", "output": tmp_path / "output"}
    run_example_through_kills("linear_road_routing", tmp_path, rate=800, **places)

    found = linear_road_oracle.notifications(spark, tmp_path / "in")
    expected = Counter(tuple(row) for row in found.collect())
    spark.catalog.clearCache()
    assert expected.total() > 30_000
    assert written(tmp_path / "output") == expected


@pytest.mark.parametrize(
    ("example", "settings"),
    [("pipeline", {"between": "round_robin"}), pytest.param("producer_consumer", {}, marks=long_only)],
)
def test_numbers_arrive_once(tmp_path: Path, example: str, settings: dict[str, str]) -> None:
    output = tmp_path / "output"
    run_example_through_kills(example, tmp_path, rows=100_000, splits=4, batch_rows=64, output=output, **settings)
    table = pq.read_table(output)
    for column in table.columns:
        numbers, counts = np.unique(column, return_counts=True)
        assert np.array_equal(numbers, np.arange(100_000))
        assert set(counts.tolist()) == {4}
