"""Iceberg with a REST catalog: lost replies of commits, other writers, who is let in, and a catalog that is away."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.types import IcebergType, LongType, StringType

from penstock.base.errors import StorageError
from penstock.connectors.iceberg.client import IcebergPlace
from penstock.connectors.iceberg.iceberg_sink import IcebergSink
from penstock.connectors.iceberg.iceberg_source import IcebergSource
from penstock.contract.iceberg_options import IcebergInput, IcebergOutput
from penstock.contract.ids import Attempt, Epoch, Ordinal, StageIndex, TaskId
from penstock.contract.manifest import SinkHandle
from tests.integration.command_job import running
from tests.integration.word_files import WordFiles, Words, counting
from tests.support.iceberg import NAME, IcebergTable, local_catalog
from tests.support.iceberg_rest import SECRET, TOKEN, RestServer, rest_server
from tests.support.tables import numbers, opened, states

ROWS = pa.record_batch({"number": pa.array(range(3), pa.int64())})
COUNTS: dict[str, IcebergType] = {"word": StringType(), "times": LongType()}
WHO = "PENSTOCK_TESTS_ICEBERG_CREDENTIAL"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestServer]:
    monkeypatch.setenv(WHO, f"tests:{SECRET}")
    with rest_server(tmp_path) as running:
        yield running


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    return IcebergTable(lambda: local_catalog(tmp_path)).create({"number": LongType()})


def options(server: RestServer) -> IcebergOutput:
    return IcebergOutput(catalog=server.uri, table=NAME, credential=f"env:{WHO}")


def claimed(server: RestServer, folder: Path) -> IcebergSink:
    sink = IcebergSink("out", options(server), ROWS.schema, folder / "staged")
    sink.claim("job", fresh=True)
    return sink


def staged(sink: IcebergSink, epoch: int) -> list[SinkHandle]:
    writer = sink.writer(TaskId(StageIndex(1), Ordinal(0), 0), Attempt(1))
    writer.write(ROWS)
    handle = writer.seal(Epoch(epoch), "cut").finish()
    assert handle is not None
    return [handle]


def test_a_commit_whose_reply_is_lost_is_made_once(server: RestServer, table: IcebergTable, tmp_path: Path) -> None:
    sink = claimed(server, tmp_path)
    for epoch in (1, 2):
        handles = staged(sink, epoch)
        server.lose_replies = 1
        with pytest.raises(StorageError, match=f"iceberg: {NAME}: ConnectionError"):
            sink.publisher.publish_all(handles, Epoch(epoch))
        sink.publisher.publish_all(handles, Epoch(epoch))
    assert table.epochs() == [1, 2]
    assert sorted(row["number"] for row in table.rows()) == [0, 0, 1, 1, 2, 2]


def test_a_commit_on_an_old_snapshot_is_refused_by_the_catalog(
    server: RestServer, table: IcebergTable, tmp_path: Path
) -> None:
    place = IcebergPlace(options(server), "")
    sink = claimed(server, tmp_path)
    handles = staged(sink, 1)
    old = place.open()
    sink.publisher.publish_all(handles, Epoch(1))
    with pytest.raises(StorageError, match="another commit came first"):
        place.commit(old, [], {"late": "1"}, {})
    assert "late" not in place.open().properties
    assert table.epochs() == [1]


def test_a_catalog_that_refuses_who_asks_or_is_away_is_named_with_a_remedy(
    server: RestServer, table: IcebergTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = claimed(server, tmp_path)
    monkeypatch.setenv(WHO, "tests:another-secret")
    with pytest.raises(StorageError, match=r"nobody knows this client.*: correct `token` or `credential`") as told:
        claimed(server, tmp_path)
    assert "another-secret" not in str(told.value)
    server.shutdown()
    server.server_close()
    with pytest.raises(StorageError, match=f"iceberg: {NAME}: ConnectionError: .*check `catalog`"):
        sink.claim("job", fresh=True)


def test_a_source_reads_on_when_the_catalog_is_back(table: IcebergTable, tmp_path: Path, server: RestServer) -> None:
    def add(*given: int) -> None:
        table.change(lambda found: found.append(pa.table({"number": pa.array(given, pa.int64())})))

    def source() -> IcebergSource:
        return IcebergSource(IcebergInput(catalog=server.uri, table=NAME, credential=f"env:{WHO}", follow=1e-9), ())

    port = server.server_address[1]
    add(1, 2)
    lanes = opened(source())
    assert numbers(lanes) == [1, 2]
    add(3)
    read = states(lanes)
    server.shutdown()
    server.server_close()
    away = f"iceberg: {NAME}: ConnectionError: .*: check `catalog`, and that it lets the workers in"
    for lane in lanes:
        with pytest.raises(StorageError, match=away):
            lane.read(1)
    with pytest.raises(StorageError, match=away):
        source()
    assert states(lanes) == read
    with rest_server(tmp_path, port):
        assert numbers(lanes) == [3]
        assert numbers(opened(source(), read)) == [3]


def test_a_source_that_is_not_let_in_is_told_which_option_to_correct(
    server: RestServer, table: IcebergTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WHO, "tests:another-secret")
    given = IcebergInput(catalog=server.uri, table=NAME, credential=f"env:{WHO}")
    with pytest.raises(StorageError, match=r"nobody knows this client.*: correct `token` or `credential`") as told:
        IcebergSource(given, ())
    assert "another-secret" not in str(told.value)


def test_a_job_counts_each_row_once_though_the_catalog_was_away(tmp_path: Path, server: RestServer) -> None:
    def made(name: str, columns: dict[str, IcebergType]) -> IcebergTable:
        return IcebergTable(lambda: local_catalog(tmp_path), name).create(columns)

    def place(name: str) -> dict[str, object]:
        return {"catalog": server.uri, "table": name, "credential": f"env:{WHO}"}

    def add() -> None:
        given.change(lambda table: table.append(pa.table({"word": words.some()})))

    given, table, words = made("lake.input", {"word": StringType()}), made(NAME, COUNTS), Words()
    job = counting({"iceberg": {**place("lake.input"), "follow": 0.2}}, {"output": {"iceberg": place(NAME)}})
    root, port = tmp_path / "job", server.server_address[1]
    root.mkdir()
    add()
    with running(root, "words", job) as found:
        found.until(lambda: len(table.rows()) >= words.rows)
        server.shutdown()
        server.server_close()
        add()
        found.until(lambda: "check `catalog`, and that it lets the workers in" in (root / "log").read_text())
        found.kill(1)
        with rest_server(tmp_path, port):
            found.until(lambda: len(table.rows()) >= words.rows)
            found.stop()
    due = [(word, n) for word, most in words.counts().items() for n in range(1, most + 1)]
    assert sorted((row["word"], row["times"]) for row in table.rows()) == sorted(due)


def test_no_secret_of_a_job_is_shown_or_stored_anywhere(server: RestServer, tmp_path: Path) -> None:
    table = IcebergTable(lambda: local_catalog(tmp_path)).create(COUNTS)
    secrets, root = tmp_path / "secrets", tmp_path / "job"
    secrets.mkdir()
    root.mkdir()
    options = {"catalog": server.uri, "table": NAME}
    for option in ("credential", "accessKey", "secretKey", "sessionToken"):
        (secrets / option).write_text(f"canary-{option}")
        options[option] = f"file:{secrets / option}"
    lines = WordFiles(root / "in")
    lines.add()
    job = counting({"json": {"path": "in", "follow": 0.2}}, {"output": {"iceberg": options}})
    with running(root, "words", job) as found:
        found.until(lambda: "nobody knows this client" in (root / "log").read_text())  # the catalog refuses the canary
        (secrets / "credential").write_text(f"tests:{SECRET}")  # which is one, too
        found.until(lambda: len(table.rows()) >= lines.rows)
        server.lose_replies = 1
        lines.add()
        found.until(lambda: len(table.rows()) >= lines.rows)
        shown = [found.command("status", "words"), found.command("status", "words", "--json")]
        found.command("savepoint", "words", "before")
        shown.append(found.command("logs", "words"))
        found.stop()
    shown += [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file() and file.parent != secrets]
    assert len(shown) > 10
    assert not [text for text in shown for canary in (b"canary-", SECRET.encode(), TOKEN.encode()) if canary in text]
