"""The Iceberg sink and source with a table in a bucket of a real server."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import LongType, StringType

from penstock.base.errors import StorageError
from penstock.connectors.iceberg.client import FILES
from penstock.connectors.iceberg.iceberg_sink import IcebergSink
from penstock.connectors.iceberg.iceberg_source import IcebergSource
from penstock.connectors.lanes import LANES
from penstock.contract.iceberg_options import IcebergInput, IcebergOutput
from penstock.contract.ids import Attempt, Epoch, Ordinal, StageIndex, TaskId
from penstock.contract.manifest import SinkHandle
from tests.support.iceberg import NAME, IcebergTable, local_catalog
from tests.support.iceberg_rest import TOKEN, rest_server
from tests.support.s3 import S3, SECRET, SECRET_VARIABLE, USER, USER_VARIABLE
from tests.support.tables import numbers, opened, states
from tools.servers.s3 import S3Server

ROWS = pa.record_batch({"word": ["a", "b", "a"], "number": pa.array(range(3), pa.int64())})

AWAY = "s3: s3://.*: check `endpoint`, and that the store runs"


def files(s3: S3, secret: str = SECRET) -> dict[str, str]:
    """Return what a client, or a catalog that tells it, knows of the files of a table."""
    keys = {"s3.access-key-id": USER, "s3.secret-access-key": secret}
    return {**keys, "s3.endpoint": s3.endpoint, "s3.region": "us-east-1", "py-io-impl": FILES}


def made(s3: S3, folder: Path) -> IcebergTable:
    """Return a table in a new bucket."""
    warehouse = f"s3://{s3.bucket()}/lake"
    table = IcebergTable(lambda: local_catalog(folder, warehouse=warehouse, **files(s3)))
    return table.create({"word": StringType(), "number": LongType()}, {"word": "identity"})


def add(table: IcebergTable, *given: int) -> None:
    """Add rows with a new snapshot, as another writer does."""
    rows = pa.table({"word": [f"{n % 2}" for n in given], "number": pa.array(given, pa.int64())})
    table.change(lambda found: found.append(rows))


def place(s3: S3, folder: Path, secret: str = SECRET_VARIABLE) -> dict[str, Any]:
    """Return the options that say where the table is, and who asks."""
    return {
        "catalog": f"sqlite:///{folder}/catalog.db",
        "table": NAME,
        "region": "us-east-1",
        "endpoint": s3.endpoint,
        "access_key": f"env:{USER_VARIABLE}",
        "secret_key": f"env:{secret}",
    }


def claimed(s3: S3, folder: Path, secret: str = SECRET_VARIABLE) -> IcebergSink:
    sink = IcebergSink("out", IcebergOutput(**place(s3, folder, secret)), ROWS.schema, folder / "staged")
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


def test_a_source_reads_each_row_once_though_the_store_is_away_in_between(
    s3: S3, s3_server: S3Server, tmp_path: Path
) -> None:
    table = made(s3, tmp_path)

    def source() -> IcebergSource:
        return IcebergSource(IcebergInput(**place(s3, tmp_path), follow=1e-9), ())

    add(table, *range(8))
    add(table, 8, 9)
    lanes = opened(source())
    begun = states(lanes)
    assert numbers(lanes) == list(range(10))
    add(table, 10, 11)
    read = states(lanes)
    s3_server.kill()
    for lane in lanes[:2]:
        with pytest.raises(StorageError, match=AWAY):
            lane.read(1)
    assert states(lanes) == read
    s3_server.start()
    assert numbers(lanes) == [10, 11]
    assert numbers(opened(source(), read)) == [10, 11]
    assert numbers(opened(source(), begun)) == list(range(12))


def test_a_file_that_was_listed_is_read_when_the_store_is_back(s3: S3, s3_server: S3Server, tmp_path: Path) -> None:
    table = made(s3, tmp_path)
    files = range(2 * LANES + 1)  # so one lane has three
    for n in files:
        add(table, n)
    source = IcebergSource(IcebergInput(**place(s3, tmp_path)), ())
    found: list[dict[str, Any]] = []
    lost = 0
    for lane in opened(source):
        while not lane.state().finished:
            if (lane.pending()[0] or 0) > 1 and not lost:
                s3_server.kill()
                with pytest.raises(StorageError, match=AWAY):
                    lane.read(1)
                lost += 1
                s3_server.start()
            if (read := lane.read(1)) is not None:
                found += read.batch.to_pylist()
    assert lost
    assert sorted(row["number"] for row in found) == [*files]


@pytest.mark.parametrize("follow", [None, 1e9])
def test_keys_that_a_catalog_gives_may_run_out(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, follow: float | None
) -> None:
    table = made(s3, tmp_path)
    add(table, 1, 2)
    add(table, 3)
    monkeypatch.setenv("PENSTOCK_TESTS_ICEBERG_TOKEN", TOKEN)
    with rest_server(tmp_path, files=files(s3)) as server:

        def source(secret: str) -> IcebergSource:
            server.given = files(s3, secret)
            token = "env:PENSTOCK_TESTS_ICEBERG_TOKEN"
            return IcebergSource(IcebergInput(catalog=server.uri, table=NAME, token=token, follow=follow), ())

        splits = source(SECRET).splits()
        late = source("a key that has run out")
        for lane in opened(late, splits)[:2]:
            with pytest.raises(StorageError, match=r"correct the keys|correct `accessKey` and `secretKey`"):
                lane.read(1)
        server.given = files(s3)
        assert numbers(opened(late, splits)) == [1, 2, 3]


def test_wrong_keys_are_named_with_the_options_to_correct(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_TESTS_S3_WRONG", "not-the-key")
    made(s3, tmp_path)
    with pytest.raises(StorageError, match=r"correct .*accessKey.* and .*secretKey") as told:
        claimed(s3, tmp_path, "PENSTOCK_TESTS_S3_WRONG")
    assert "not-the-key" not in str(told.value)
