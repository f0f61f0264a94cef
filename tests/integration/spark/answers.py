"""Compares what the examples of applications wrote with what they must write."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from penstock_spark import fraud, linear_road_oracle
from penstock_spark.linear_road_oracle import DIGITS

STATES = [a + t + e for a in "LMH" for t in "NH" for e in "LNS"]


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


def check_fraud(spark: SparkSession, rows: Path, alerts: Path, model: Any) -> None:
    """Compare the alerts with those that Spark computes. ``model`` is what :func:`write_model` returned."""
    found = fraud.scores(spark, rows, STATES[::-1], model).where("score > 0.96").collect()
    assert len(found) > 100
    assert written(alerts) == Counter(tuple(row) for row in found)


def check_linear_road(spark: SparkSession, rows: Path, answers: Path) -> None:
    """Compare the four outputs with those that Spark computes."""
    found = linear_road_oracle.answers(spark, rows)
    expected = {name: Counter(tuple(row) for row in frame.collect()) for name, frame in found.items()}
    spark.catalog.clearCache()
    for name, least in (("tolls", 100), ("balances", 30), ("expenditures", 5)):
        assert sum(row[-1] > 0 for row in expected[name].elements()) > least, name
    assert expected["accidents"].total() > 2
    for name in ("accidents", "balances", "expenditures"):
        assert written(answers / name) == expected[name], name
    tolls = Counter((*row[:5], round(row[5], DIGITS), *row[6:]) for row in written(answers / "tolls").elements())
    assert tolls == expected["tolls"]
