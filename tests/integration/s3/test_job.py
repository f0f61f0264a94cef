"""Jobs that read and write S3 on a real local cluster: exact when engines and the server are killed, and rescaled."""

import json
from collections import Counter
from itertools import count
from pathlib import Path

import pytest

from tests.integration.command_job import running
from tests.integration.word_files import WordFiles
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
            json: {{path: in, follow: 0.2}}
            columns: [{{name: word, type: string}}]
        - name: counts
          keyBy: [word]
          aggregate: {{compute: [{{name: times, function: count}}]}}
        - name: output
          sink:
            s3:
              url: s3://{bucket}/counts
              format: json
              endpoint: {endpoint}
              accessKey: env:{user}
              secretKey: env:{secret}
"""


READ = COUNT.replace(
    "json: {{path: in, follow: 0.2}}",
    "s3: {{url: 's3://{bucket}/in', format: json, follow: 0.2, endpoint: '{endpoint}', accessKey: 'env:{user}',"
    " secretKey: 'env:{secret}'}}",
)
WORDS = [f"word {n % 50}" for n in range(1000)]  # of an object


def written(s3: S3, bucket: str) -> list[dict[str, object]]:
    """Return the rows in all objects, in the order of their names."""
    names = [name for name in s3.names(bucket, "counts/") if "/_penstock/" not in name]
    return [json.loads(line) for name in names for line in s3.read(bucket, name).splitlines()]


def check_each_once_in_order(s3: S3, bucket: str, due: Counter[str]) -> None:
    """Every count of every word is there once, and those of a word are in order by the names of the objects."""
    seen: dict[object, list[object]] = {}
    for row in written(s3, bucket):
        seen.setdefault(row["word"], []).append(row["times"])
    assert seen == {word: list(range(1, most + 1)) for word, most in due.items()}


def test_counts_are_written_exactly_once_while_engines_and_the_server_are_killed(
    s3: S3, s3_server: S3Server, tmp_path: Path
) -> None:
    lines, bucket = WordFiles(tmp_path / "in"), s3.bucket()
    lines.add()
    job_file = COUNT.format(bucket=bucket, endpoint=s3.endpoint, user=USER_VARIABLE, secret=SECRET_VARIABLE)
    with running(tmp_path, "words", job_file) as job:

        def all_written() -> bool:
            return len(written(s3, bucket)) >= lines.rows

        job.until(all_written)
        for workers, victim in ((3, 0), (2, 1)):
            lines.add()
            s3_server.kill()
            lines.add()
            if workers == 3:
                job.until(lambda: any("check `endpoint`" in sink.because for sink in job.status().sinks))
            s3_server.start()
            job.rescale(workers)
            lines.add()
            job.kill(victim)
        job.until(all_written)
        job.until(lambda: all(sink.since_us is None for sink in job.status().sinks))
        job.stop()
    check_each_once_in_order(s3, bucket, lines.counts())
    left = [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert left == [], "the secret is in what the job has left"


def test_objects_are_read_exactly_once_while_engines_and_the_server_are_killed(
    s3: S3, s3_server: S3Server, tmp_path: Path
) -> None:
    bucket, objects = s3.bucket(), count()
    due = Counter[str]()

    def add() -> None:
        due.update(WORDS)
        lines = b"".join(json.dumps({"word": word}).encode() + b"\n" for word in WORDS)
        s3.write(bucket, f"in/{next(objects)}.jsonl", lines)

    def all_written() -> bool:
        return len(written(s3, bucket)) >= due.total()

    add()
    job_file = READ.format(bucket=bucket, endpoint=s3.endpoint, user=USER_VARIABLE, secret=SECRET_VARIABLE)
    with running(tmp_path, "words", job_file) as job:
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
        job.stop()
    check_each_once_in_order(s3, bucket, due)
