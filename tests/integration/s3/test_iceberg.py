"""The Iceberg sink with a table in a bucket of a real server."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.types import LongType, StringType

from penstock.base.errors import StorageError
from penstock.connectors.iceberg.client import FILES
from penstock.connectors.iceberg.iceberg_sink import IcebergSink
from penstock.contract.iceberg_options import IcebergOutput
from penstock.contract.ids import Attempt, Epoch, Ordinal, StageIndex, TaskId
from penstock.contract.manifest import SinkHandle
from tests.support.iceberg import NAME, IcebergTable, local_catalog
from tests.support.s3 import S3, SECRET, SECRET_VARIABLE, USER, USER_VARIABLE
from tools.servers.s3 import S3Server

pytestmark = pytest.mark.timeout(600)
ROWS = pa.record_batch({"word": ["a", "b", "a"], "number": pa.array(range(3), pa.int64())})


def made(s3: S3, folder: Path) -> IcebergTable:
    """Return a table in a new bucket."""
    keys = {"s3.access-key-id": USER, "s3.secret-access-key": SECRET}
    place = {"warehouse": f"s3://{s3.bucket()}/lake", "s3.endpoint": s3.endpoint, "s3.region": "us-east-1"}
    table = IcebergTable(lambda: local_catalog(folder, **keys, **place, **{"py-io-impl": FILES}))
    return table.create({"word": StringType(), "number": LongType()}, {"word": "identity"})


def claimed(s3: S3, folder: Path, secret: str = SECRET_VARIABLE) -> IcebergSink:
    options = IcebergOutput(
        catalog=f"sqlite:///{folder}/catalog.db",
        table=NAME,
        region="us-east-1",
        endpoint=s3.endpoint,
        access_key=f"env:{USER_VARIABLE}",
        secret_key=f"env:{secret}",
    )
    sink = IcebergSink("out", options, ROWS.schema, folder / "staged")
    sink.claim("job", fresh=True)
    return sink


def staged(sink: IcebergSink, epoch: int) -> list[SinkHandle]:
    writer = sink.writer(TaskId(StageIndex(1), Ordinal(0), 0), Attempt(1))
    writer.write(ROWS)
    handle = writer.seal(Epoch(epoch), f"cut-{epoch}").finish()
    assert handle is not None
    return [handle]


def test_one_snapshot_for_each_epoch_though_the_store_is_away_in_between(
    s3: S3, s3_server: S3Server, tmp_path: Path
) -> None:
    table = made(s3, tmp_path)
    sink = claimed(s3, tmp_path)
    first, second = staged(sink, 1), staged(sink, 2)
    for _ in range(2):
        sink.publisher.publish_all(first, Epoch(1))
    s3_server.kill()
    with pytest.raises(StorageError, match="s3://"):
        sink.publisher.publish_all(second, Epoch(2))
    s3_server.start()
    sink.publisher.publish_all(second, Epoch(2))
    assert table.epochs() == [1, 2]
    assert Counter((row["word"], row["number"]) for row in table.rows()) == Counter(2 * [("a", 0), ("b", 1), ("a", 2)])


def test_wrong_keys_are_named_with_the_options_to_correct(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_TESTS_S3_WRONG", "not-the-key")
    made(s3, tmp_path)
    with pytest.raises(StorageError, match=r"correct .*accessKey.* and .*secretKey") as told:
        claimed(s3, tmp_path, "PENSTOCK_TESTS_S3_WRONG")
    assert "not-the-key" not in str(told.value)
