"""Spark Structured Streaming: Parquet files, ``groupBy().count()`` in update mode."""

from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession

from bench.peers.programs.task import Marks, read_task


def main() -> None:
    """Run until every file is read. Then read the counts from the state store."""
    task = read_task()
    spark = (
        SparkSession.builder.master(f"local[{task.splits}]")
        .config("spark.sql.shuffle.partitions", task.splits)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "3g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.streaming.numRecentProgressUpdates", 10_000)
        .getOrCreate()
    )
    lines = spark.readStream.schema("word string").option("maxFilesPerTrigger", 2)
    counts = lines.parquet(str(task.folder / "parquet")).groupBy("word").count()
    checkpoint = str(task.folder / "checkpoint")
    writer = counts.writeStream.outputMode("update").format("noop")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    marks = marks_of([dict(p) for p in query.recentProgress])
    stored = spark.read.format("statestore").load(checkpoint)
    rows = stored.selectExpr("key.word as word", "value.count as count").collect()
    emitted = sum(p["stateOperators"][0]["numRowsUpdated"] for p in query.recentProgress)
    task.answer({row["word"]: row["count"] for row in rows}, marks, emitted=emitted)
    spark.stop()


def marks_of(progress: list[dict[str, Any]]) -> Marks:
    """Return the end of each batch and the rows until then. The first mark is the start."""
    marks: Marks = []
    total = 0
    for batch in progress:
        begun = datetime.fromisoformat(batch["timestamp"].replace("Z", "+00:00")).timestamp()
        if not marks:
            marks.append((begun, 0))
        total += batch["numInputRows"]
        marks.append((begun + batch["durationMs"]["triggerExecution"] / 1000, total))
    return marks


if __name__ == "__main__":
    main()
