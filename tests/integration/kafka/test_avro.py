"""A job over Avro on a real broker: old and new schemas, what does not decode, and a password that shows nowhere."""

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import fastavro

from penstock.connectors.kafka.avro import HEADER
from tests.integration.command_job import running
from tests.integration.kafka.test_job import letters_in
from tests.support.kafka import Kafka
from tests.support.schema_registry import running as running_registry

CANARY = "canary-of-the-registry-4711"
OLD = {"type": "record", "name": "Order", "fields": [{"name": "word", "type": "string"}]}
NEW = {**OLD, "fields": [*OLD["fields"], {"name": "price", "type": "double", "default": 0.0}]}
READER = {**OLD, "fields": [*OLD["fields"], {"name": "price", "type": "double", "default": 0.5}]}
JOB = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: avro}}
spec:
  replicas: 2
  checkpoint: {{interval: 300ms}}
  job:
    graph:
      steps:
        - name: orders
          source:
            kafka:
              bootstrapServers: "{servers}"
              topic: {source}
              format: avro
              registry: {registry}
              registryUser: me
              registryPassword: "file:{secret}"
              readerSchema: '{reader}'
              onError: dead-letter
            columns: [{{name: word, type: string}}, {{name: price, type: double}}]
        - name: prices
          keyBy: [word]
          aggregate:
            compute: [{{name: count, function: count}}, {{name: total, function: sum, column: price}}]
        - name: output
          sink:
            kafka:
              bootstrapServers: "{servers}"
              topic: {target}
              format: avro
              registry: {registry}
              registryUser: me
              registryPassword: "file:{secret}"
              keyColumn: word
        - name: bad
          inputs: [orders.dead-letter]
          sink: {{parquet: {{path: bad}}}}
"""


def value(number: int, schema: Any, row: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return HEADER.pack(0, number) + out.getvalue()


def test_a_job_reads_and_writes_avro_through_a_kill_and_its_password_is_nowhere(kafka: Kafka, tmp_path: Path) -> None:
    source, target, secret = kafka.topic("orders", 2), kafka.topic("prices"), tmp_path / "secret"
    secret.write_text(f"{CANARY}\n")
    root = tmp_path / "job"
    root.mkdir()
    with running_registry() as registry:
        registry.user = f"me:{CANARY}"
        ids = [registry.add(f"{source}-value", schema) for schema in (OLD, NEW)]
        rows = [{"word": f"w{n % 5}", "price": n / 4} for n in range(400)]
        records = [{"value": value(ids[n % 2], (OLD, NEW)[n % 2], row), "partition": 0} for n, row in enumerate(rows)]
        bad = [{"value": HEADER.pack(0, 99) + b"x", "partition": 1}, {"value": b"{}", "partition": 1}]
        job = JOB.format(
            servers=kafka.broker.address, source=source, target=target, registry=registry.url, secret=secret,
            reader=json.dumps(READER),
        )  # fmt: skip
        kafka.write(source, records[:200])
        with running(root, "avro", job) as found:
            found.until(lambda: len(kafka.read(target)) >= 200)
            found.kill(1)
            kafka.write(source, records[200:] + bad)
            found.until(lambda: len(kafka.read(target)) >= 400 and len(letters_in(root / "bad")) >= len(bad))
            shown = [found.command("status", "avro"), found.command("status", "avro", "--json")]
            found.command("savepoint", "avro", "before")
            found.stop()
        out = [fastavro.schemaless_reader(io.BytesIO((r.value or b"")[5:]), json.loads(registry.schemas[3]["schema"]))
               for r in kafka.read(target)]  # fmt: skip
    assert_totals(out, rows)
    letters = letters_in(root / "bad")
    assert Counter(row["value"] for row in letters) == Counter(record["value"] for record in bad)
    assert any("has no schema 99" in row["error"] for row in letters)
    shown += [file.read_bytes() for file in root.rglob("*") if file.is_file()]
    assert len(shown) > 10
    assert not [text for text in shown if CANARY.encode() in text]


def assert_totals(out: list[Any], rows: list[dict[str, Any]]) -> None:
    """The totals of a word rise one by one; a value of the old schema has the price of the reader's default."""
    totals, counts = Counter[str](), Counter[str]()
    due = []
    for n, row in enumerate(rows):
        word = row["word"]
        totals[word] += row["price"] if n % 2 else 0.5  # type: ignore[assignment]
        counts[word] += 1
        due.append((word, counts[word], totals[word]))
    assert sorted((row["word"], row["count"], row["total"]) for row in out) == sorted(due)
