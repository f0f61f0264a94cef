"""The examples fraud and spike, with input and oracle by Spark: exact through kills and a rescale 2 -> 3 -> 2."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from penstock.graph import keep_job_file, read_job_file
from penstock_spark import fraud, spike
from tests.integration.engine_rig import Rig
from tests.integration.local_job import REPOSITORY

STATES = [a + t + e for a in "LMH" for t in "NH" for e in "LNS"]


def run_through_kills(example: str, folder: Path, **parameters: object) -> None:
    """Run an example with engines that are killed, and with two, three and again two workers."""
    settings = [f"job.parameters.{name}={value}" for name, value in parameters.items()]
    keep_job_file(read_job_file(REPOSITORY / "examples" / f"{example}.yaml", settings), folder / "job.json")
    (folder / "storage").mkdir()
    with Rig(folder / "job.json", folder) as rig:
        rig.spawn(0, 1)
        rig.begin()
        rig.checkpoint()
        rig.lose(1)
        rig.spawn(2)
        rig.rescale(3)
        rig.checkpoint()
        rig.lose(2)
        rig.rescale(2)
        rig.checkpoint()
        rig.finish()


def written(folder: Path) -> Counter[tuple[Any, ...]]:
    """Count the rows of an output. Times are whole microseconds."""
    table = pq.read_table(folder)
    columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in table.columns]
    return Counter(zip(*(column.to_pylist() for column in columns), strict=True))


def write_model(path: Path) -> Any:
    """Write a model whose states are in another order than those of the example; return its rows."""
    rows = np.random.Generator(np.random.PCG64(7)).dirichlet(np.full(18, 0.3), 18)
    text = [",".join(STATES[::-1]), *(",".join(repr(float(p)) for p in row) for row in rows)]
    path.write_text("\n".join(text) + "\n")
    return rows


def test_fraud_is_exact_through_kills_and_rescales(spark: SparkSession, tmp_path: Path) -> None:
    request = fraud.FraudRequest(rows=12_000, files=4, entities=300, unknown_share=0.01)
    fraud.write(spark, request, tmp_path / "in")
    model = write_model(tmp_path / "model.csv")
    places = {name: tmp_path / name for name in ("output", "dead_letters")}
    run_through_kills("fraud", tmp_path, input=tmp_path / "in", model=tmp_path / "model.csv", rate=1000, **places)

    found = fraud.scores(spark, tmp_path / "in", STATES[::-1], model).where("score > 0.96").collect()
    assert len(found) > 100
    assert written(tmp_path / "output") == Counter(tuple(row) for row in found)
    unknown = pq.read_table(tmp_path / "dead_letters")
    rows = pq.read_table(tmp_path / "in")
    expected = [row for row in rows.to_pylist() if row["state"] == fraud.UNKNOWN]
    assert Counter(unknown["transaction_id"].to_pylist()) == Counter(row["transaction_id"] for row in expected)
    assert len(expected) > 50
    assert set(unknown["error"].to_pylist()) == {
        "UnfitError: Transaction.state: '???' is none of the texts of the Enum"
    }


def test_spike_is_exact_through_kills_and_rescales(spark: SparkSession, tmp_path: Path) -> None:
    request = spike.SpikeRequest(rows=12_000, files=4, motes=8)
    spike.write(spark, request, tmp_path / "in")
    run_through_kills("spike", tmp_path, input=tmp_path / "in", output=tmp_path / "output", rate=1000)

    found = spike.spikes(spark, tmp_path / "in").selectExpr(
        "mote", "unix_micros(cast(ts as timestamp)) as ts", "temperature", "average"
    )
    expected = Counter(tuple(row) for row in found.collect())
    assert expected.total() > 100
    assert written(tmp_path / "output") == expected
