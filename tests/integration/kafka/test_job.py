"""Jobs over Kafka on a real local cluster: exact when engines are killed and the job is rescaled."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from penstock.contract.status import JobStatus
from tests.integration.command_job import running
from tests.support.kafka import Kafka
from tests.support.long_tests import count

pytestmark = pytest.mark.timeout(1800)
KEYS, PARTITIONS = 50, 4
KILLS = count(4, 50)  # of which each tenth is of the leader, and each tenth of the broker
RECORDS = 500  # between two kills
COUNT = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: kafka-job}}
spec:
  replicas: 2
  checkpoint: {{interval: 300ms}}
  restart: {{attempts: 100}}
  job:
    graph:
      steps:
        - name: words
          source:
            kafka: {{bootstrapServers: "{servers}", topic: {source}, discoverEvery: 0.5, onError: dead-letter}}
            columns: [{{name: word, type: string}}, {{name: number, type: int64}}]
        - name: counts
          keyBy: [word]
          aggregate:
            compute: [{{name: count, function: count}}]
        - name: output
          sink: {{{sink}}}
        - name: bad
          inputs: [words.dead-letter]
          sink: {{parquet: {{path: bad}}}}
"""


def words(first: int, last: int, partitions: int = PARTITIONS) -> list[dict[str, Any]]:
    """Return records in the order of their numbers; a word is always in one partition."""
    texts = [json.dumps({"word": f"word {n % KEYS}", "number": n}) for n in range(first, last)]
    return [{"value": t.encode(), "partition": n % KEYS % partitions} for n, t in enumerate(texts, first)]


def check_exact(rows: list[dict[str, Any]], records: int) -> None:
    """Every record is counted once, and the counts of a word rise one by one."""
    seen = Counter[str]()
    for row in rows:
        seen[row["word"]] += 1
        assert int(row["count"]) == seen[row["word"]], row
    assert seen == Counter(f"word {n % KEYS}" for n in range(records))


def lines_of(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def letters_in(folder: Path) -> list[dict[str, Any]]:
    return [row for file in folder.glob("*.parquet") for row in pyarrow.parquet.read_table(file).to_pylist()]


def pending_rows(status: JobStatus) -> int | None:
    return next((step.pending_rows for step in status.steps if step.name == "words"), None)


def test_a_topic_is_read_exactly_once_through_a_kill_and_a_rescale(kafka: Kafka, tmp_path: Path) -> None:
    source, out = kafka.topic("words", PARTITIONS), tmp_path / "out"
    bad = [{"value": b"\xff%d" % n, "key": b"key", "partition": n % PARTITIONS} for n in range(200)]
    job = COUNT.format(servers=kafka.broker.address, source=source, sink="json: {path: out}")
    kafka.write(source, words(0, 2000))
    with running(tmp_path, "kafka-job", job) as found:
        found.until(lambda: len(lines_of(out)) >= 2000)
        told = found.status().sinks
        assert {(s.name, s.guarantee, s.why) for s in told} == {(n, "exactly-once", "") for n in ("output", "bad")}
        kafka.write(source, words(2000, 4000))
        found.rescale(3)
        kafka.write(source, words(4000, 6000))
        kafka.write(source, bad)
        found.kill(1)
        kafka.write(source, words(6000, 8000))
        found.until(lambda: len(lines_of(out)) >= 8000 and len(letters_in(tmp_path / "bad")) >= len(bad))
        found.until(lambda: pending_rows(found.status()) == 0)
        found.stop()
    check_exact(lines_of(out), 8000)
    letters = letters_in(tmp_path / "bad")
    assert Counter(row["value"] for row in letters) == Counter(record["value"] for record in bad)
    places = {(f"{source}-{r.partition}", r.offset): r.value for r in kafka.read(source)}
    assert all(places[row["error_partition"], row["error_offset"]] == row["value"] for row in letters)
    assert {(row["error_step"], row["key"]) for row in letters} == {("words", b"key")}


@pytest.mark.parametrize("kills", [KILLS])
def test_kafka_to_keyed_state_to_kafka_is_exact_through_kills_and_rescales(
    kafka: Kafka, tmp_path: Path, kills: int
) -> None:
    source, target = kafka.topic("words", PARTITIONS), kafka.topic("counts", 1)
    sink = f'kafka: {{bootstrapServers: "{kafka.broker.address}", topic: {target}, keyColumn: word}}'
    written, chosen = RECORDS, random.Random(3)
    kafka.write(source, words(0, written))
    with running(tmp_path, "kafka-job", COUNT.format(servers=kafka.broker.address, source=source, sink=sink)) as found:
        found.until(lambda: bool(kafka.read(target)))
        for kill in range(kills):
            kafka.write(source, words(written, written + RECORDS))
            written += RECORDS
            if kill % 5 == 2:
                found.rescale(2 if kill % 2 else 3)
            match kill % 10:
                case 1:
                    found.kill_leader()
                case 3:
                    kafka.broker.kill()
                    kafka.broker.start()
                case _:
                    found.kill(chosen.randrange(2))
        wanted = written
        found.until(lambda: len(kafka.read(target)) >= wanted)
        found.stop()
    check_exact([json.loads(record.value or b"") for record in kafka.read(target)], written)
