"""A job from S3 to S3 on a real local cluster: exact when engines and the server are killed, and when rescaled."""

import json
from pathlib import Path

import pytest

from tests.integration.command_job import running
from tests.integration.word_files import Words
from tests.support.s3 import S3, SECRET, SECRET_VARIABLE, USER_VARIABLE
from tools.servers.s3 import S3Server

pytestmark = pytest.mark.timeout(600)
COUNT = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: words}}
spec:
  replicas: 2
  checkpoint: {{interval: 300ms}}
  restart: {{attempts: 100}}
  job:
    graph:
      steps:
        - name: lines
          source:
            s3: {{url: "s3://{bucket}/in", format: json, follow: 0.2, {store}}}
            columns: [{{name: word, type: string}}]
        - name: counts
          keyBy: [word]
          aggregate: {{compute: [{{name: times, function: count}}]}}
        - name: output
          sink:
            s3: {{url: "s3://{bucket}/counts", format: json, {store}}}
"""
STORE = f'endpoint: "{{endpoint}}", accessKey: "env:{USER_VARIABLE}", secretKey: "env:{SECRET_VARIABLE}"'


def written(s3: S3, bucket: str) -> list[dict[str, object]]:
    """Return the rows in all objects, in the order of their names."""
    names = [name for name in s3.names(bucket, "counts/") if "/_penstock/" not in name]
    return [json.loads(line) for name in names for line in s3.read(bucket, name).splitlines()]


def test_counts_are_exact_while_engines_and_the_server_are_killed(s3: S3, s3_server: S3Server, tmp_path: Path) -> None:
    bucket, words = s3.bucket(), Words()

    def add() -> None:
        name, content = words.next()
        s3.write(bucket, f"in/{name}", content)

    def all_written() -> bool:
        return len(written(s3, bucket)) >= words.rows

    add()
    store = STORE.format(endpoint=s3.endpoint)
    with running(tmp_path, "words", COUNT.format(bucket=bucket, store=store)) as job:
        job.until(all_written)
        add()
        job.kill(0)
        job.rescale(3)
        add()
        s3_server.kill()
        job.kill(1)
        s3_server.start()
        job.rescale(2)
        add()
        job.until(all_written)
        job.until(lambda: all(sink.since_us is None for sink in job.status().sinks))
        job.stop()
    seen: dict[object, list[object]] = {}
    for row in written(s3, bucket):
        seen.setdefault(row["word"], []).append(row["times"])
    assert seen == {word: list(range(1, most + 1)) for word, most in words.counts().items()}, "each once, in order"
    left = [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert left == [], "the secret is in what the job has left"
