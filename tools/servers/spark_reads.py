"""Reads tables as ``table_spark.py`` asks. It runs in the environment of that Spark, which has nothing of the project.

Its one argument has the settings of Spark. Each line of its input is one question, and gets one line: ``null`` when
the rows are in Parquet files in the folder ``to``, or what is wrong. It ends with its input.
"""

import json
import sys
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def main(settings: dict[str, str]) -> None:
    """Answer until the input ends."""
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for line in sys.stdin:
        print(json.dumps(_answered(spark.newSession(), json.loads(line))), flush=True)
    spark.stop()


def _answered(spark: SparkSession, asked: dict[str, Any]) -> str | None:
    """Write the rows that are asked for. A session has catalogs of its own."""
    try:
        for name, value in asked["settings"].items():
            spark.conf.set(name, value)
        found = (spark.table(asked["table"]).where(condition) for condition in asked["conditions"])
        reduce(DataFrame.unionAll, found).write.parquet(asked["to"])
    except Exception as error:  # the next question may have an answer
        return f"{type(error).__name__}: {error}"
    return None


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
