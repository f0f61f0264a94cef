"""Kafka: Penstock's source alone, its sink alone, and from topic to topic beside other engines."""

import json
import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from bench import inputs
from bench.connectors import engines, jobs
from bench.connectors.runs import Run
from bench.connectors.topics import Topics, differences
from bench.peer import Peer
from bench.scenario import Scenario
from penstock.base.values import replace
from penstock.connectors.discard_sink import read_reports

WORKERS = 2  # from topic to topic: one for each processor
SETTLE_S = 1.5 * jobs.CHECKPOINT_S  # the end of a transaction looks like a record: the last rows may come with the next
WORDS = pa.schema([("word", pa.string())])
COUNTS = pa.schema([("word", pa.string()), ("count", pa.int64())])
PENSTOCK = "penstock"
THROUGH = "kafka to kafka "


def words(rows: int) -> Scenario:
    """Return the words of a topic, or of the generator: one split."""
    return Scenario("kafka", "", rows=rows, source_splits=1)


def first_words(rows: int, found: Mapping[str, int], keys: int = 10_000) -> list[str]:
    """Say what is wrong with the numbers of words that are to be the first ones of the generator; none, if nothing."""
    return inputs.differences(inputs.expected_counts(replace(words(rows), keys=keys)), dict(found))


def source(topics: Topics, topic: str, rows: int, form: str) -> Run:
    """Read a topic to its end with one worker; the sink counts the rows and drops them."""
    steps = [jobs.from_kafka(topics.servers, topic, form, until="latest"), jobs.to("discard", report="report")]
    due = {"rows": rows} | ({"number": rows * (rows - 1) // 2} if form == "json" else {})

    def check(folder: Path) -> list[str]:
        found = read_reports(folder / "report")
        return [
            f"{name}: {found.get(name)} instead of {value}" for name, value in due.items() if found.get(name) != value
        ]

    return Run(
        f"kafka source {form}", rows, topics.pid, lambda folder: jobs.running(folder, steps), taken, check, ends=True
    )


def taken(folder: Path) -> int:
    """Return how many rows the sink has taken, by the newest status."""
    lines = (folder / "statuses").read_text().splitlines(keepends=True)
    whole = [line for line in lines[-2:] if line.endswith("\n")]
    steps = json.loads(whole[-1]).get("steps") if whole else ()
    return next((int(step["rows_in"]) for step in steps or () if step["name"] == "end"), 0)


def sink(topics: Topics, rows: int, form: str, delivery: str) -> Run:
    """Write generated words with one worker."""
    target = topics.make("out")
    options = {"bootstrapServers": topics.servers, "topic": target, "format": form, "delivery": delivery}
    steps = [jobs.generated(rows), jobs.to("kafka", **options)]

    def check(_: Path) -> list[str]:
        texts = topics.texts(target) if form == "raw" else topics.rows(target, WORDS).column("word")
        return first_words(rows, {row["values"]: row["counts"] for row in texts.value_counts().to_pylist()})

    return Run(
        f"kafka sink {form} {delivery}",
        rows,
        topics.pid,
        lambda folder: jobs.running(folder, steps),
        lambda _: topics.visible(target),
        check,
        ends=True,
        whole=True,
    )


def name_of(engine: Peer | None) -> str:
    """Return the name of the run of an engine from topic to topic, of Penstock if it is None."""
    return THROUGH + (engine.name if engine else PENSTOCK)


def through(topics: Topics, topic: str, rows: int, engine: Peer | None) -> Run:
    """Count the words of a topic into another one with an engine, Penstock if it is None."""
    target = topics.make("counts")
    steps = [
        jobs.from_kafka(topics.servers, topic, "json"),
        jobs.counts(),
        jobs.to("kafka", bootstrapServers=topics.servers, topic=target, keyColumn="word"),
    ]
    task: dict[str, object] = {
        "servers": topics.servers,
        "source": topic,
        "target": target,
        "parallelism": WORKERS,
        "checkpoint_s": jobs.CHECKPOINT_S,
    }

    def check(_: Path) -> list[str]:
        found = topics.rows(target, COUNTS).combine_chunks()
        counts = found.column("count").to_numpy()
        return differences(inputs.expected_counts(words(rows)), found.column("word").combine_chunks(), counts)

    return Run(
        name_of(engine),
        rows,
        topics.pid,
        lambda folder: engines.running(engine, folder, task) if engine else jobs.running(folder, steps, WORKERS),
        lambda _: topics.visible(target),
        check,
        ends=False,
        settle=lambda: time.sleep(SETTLE_S),
    )
