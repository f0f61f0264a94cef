"""The Delta Lake sink and source with a table in a bucket of a real server."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.base.errors import StorageError
from penstock.connectors.delta.client import DeltaPlace
from penstock.connectors.delta.delta_sink import DeltaSink
from penstock.connectors.delta.delta_source import DeltaSource
from penstock.contract.delta_options import DeltaInput, DeltaOutput
from penstock.contract.ids import Attempt, Epoch, Ordinal, StageIndex, TaskId
from penstock.contract.manifest import SinkHandle
from tests.support.delta import Table
from tests.support.s3 import S3, SECRET_VARIABLE, USER_VARIABLE
from tools.servers.s3 import S3Server

ROWS = pa.record_batch({"word": ["a", "b", "a"], "number": pa.array(range(3), pa.int64())})
TASKS = [TaskId(StageIndex(1), Ordinal(worker), 0) for worker in range(2)]


def options(s3: S3, bucket: str, secret: str = SECRET_VARIABLE) -> DeltaOutput:
    user, key = f"env:{USER_VARIABLE}", f"env:{secret}"
    return DeltaOutput(f"s3://{bucket}/lake/words", "us-east-1", s3.endpoint, user, key)


def made(s3: S3, bucket: str, folder: Path) -> tuple[Table, DeltaSink]:
    """Return a table in a bucket, and a sink that has claimed it."""
    table = Table.in_bucket(s3, bucket, "lake/words").create({"word": "string", "number": "long"}, ["word"])
    sink = DeltaSink("out", options(s3, bucket), ROWS.schema, folder)
    sink.claim("job", fresh=True)
    return table, sink


def staged(sink: DeltaSink, epoch: int) -> list[SinkHandle]:
    handles = []
    for task in TASKS:
        writer = sink.writer(task, Attempt(1))
        writer.write(ROWS)
        handle = writer.seal(Epoch(epoch), f"cut-{epoch}").finish()
        assert handle is not None
        handles.append(handle)
    return handles


def test_one_commit_for_each_epoch_though_the_server_is_away_in_between(
    s3: S3, s3_server: S3Server, tmp_path: Path
) -> None:
    bucket = s3.bucket()
    table, sink = made(s3, bucket, tmp_path)
    first, second = staged(sink, 1), staged(sink, 2)
    for _ in range(2):
        sink.publisher.publish_all(first, Epoch(1))
    s3_server.kill()
    with pytest.raises(StorageError, match="delta: s3://"):
        sink.publisher.publish_all(second, Epoch(2))
    s3_server.start()
    sink.publisher.publish_all(second, Epoch(2))
    assert table.epochs() == [1, 2]
    assert Counter(row["number"] for row in table.rows()) == Counter(4 * [0, 1, 2])


def test_a_source_reads_the_rows_that_are_there_and_those_that_are_added(s3: S3, tmp_path: Path) -> None:
    bucket = s3.bucket()
    _, sink = made(s3, bucket, tmp_path)
    sink.publisher.publish_all(staged(sink, 1), Epoch(1))
    given = options(s3, bucket)
    keys = {name: getattr(given, name) for name in ("region", "endpoint", "access_key", "secret_key")}
    source = DeltaSource(DeltaInput(given.table, **keys, follow=1e-9), ())
    readers = [source.open(state) for state in source.splits()]

    def read() -> Counter[tuple[str, int]]:
        found = Counter[tuple[str, int]]()
        for reader in readers:
            while (piece := reader.read(2)) is not None:
                found.update((row["word"], row["number"]) for row in piece.batch.to_pylist())
        return found

    each = Counter({(row["word"], row["number"]): len(TASKS) for row in ROWS.to_pylist()})
    assert read() == each
    sink.publisher.publish_all(staged(sink, 2), Epoch(2))
    assert read() == each, "the added rows, and no other ones"


def test_a_commit_on_an_old_snapshot_is_refused_by_the_store(s3: S3, tmp_path: Path) -> None:
    bucket = s3.bucket()
    table, sink = made(s3, bucket, tmp_path)
    place = DeltaPlace(options(s3, bucket), "")
    old = place.open()
    sink.publisher.publish_all(staged(sink, 1), Epoch(1))
    with pytest.raises(StorageError, match="was made by another commit"):
        place.commit(old, [], {"late": 1}, {})
    assert table.epochs() == [1]


def test_wrong_keys_are_named_with_the_options_to_correct(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_TESTS_S3_WRONG", "not-the-key")
    bucket = s3.bucket()
    Table.in_bucket(s3, bucket, "lake/words").create({"word": "string", "number": "long"})
    sink = DeltaSink("out", options(s3, bucket, "PENSTOCK_TESTS_S3_WRONG"), ROWS.schema, tmp_path)
    with pytest.raises(StorageError, match=r"correct .*accessKey.* and .*secretKey") as told:
        sink.claim("job", fresh=True)
    assert "not-the-key" not in str(told.value)
