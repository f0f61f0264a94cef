"""A job from S3 to S3 on a real local cluster: exact when engines and the server are killed, and when rescaled."""

import json
from pathlib import Path

from tests.integration.command_job import running
from tests.integration.word_files import Words, counting
from tests.support.s3 import S3, SECRET, SECRET_VARIABLE, USER_VARIABLE
from tools.servers.s3 import S3Server


def written(s3: S3, bucket: str) -> list[dict[str, object]]:
    """Return the rows in all objects, in the order of their names.

    The server also lists a file that it is still writing, under a longer name, which is gone a moment later.
    """
    found = s3.names(bucket, "counts/")
    names = [name for name in found if "/_penstock/" not in name and name.endswith(".jsonl")]
    return [json.loads(line) for name in names for line in s3.read(bucket, name).splitlines()]


def test_counts_are_exact_while_engines_and_the_server_are_killed(s3: S3, s3_server: S3Server, tmp_path: Path) -> None:
    bucket, words = s3.bucket(), Words()

    def add() -> None:
        name, content = words.next()
        s3.write(bucket, f"in/{name}", content)

    def all_written() -> bool:
        return len(written(s3, bucket)) >= words.rows

    add()
    store = {"endpoint": s3.endpoint, "accessKey": f"env:{USER_VARIABLE}", "secretKey": f"env:{SECRET_VARIABLE}"}
    lines = {"url": f"s3://{bucket}/in", "format": "json", "follow": 0.2, **store}
    counts = {"url": f"s3://{bucket}/counts", "format": "json", **store}
    with running(tmp_path, "words", counting({"s3": lines}, {"output": {"s3": counts}})) as job:
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
