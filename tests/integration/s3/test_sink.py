"""The S3 sink against a real server: each committed row once, wherever a process is killed or stopped."""

import json
import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.base.errors import ConfigError, StateError, StorageError
from penstock.connectors.missing import NotThere
from penstock.connectors.s3.object_folder import Unusable, open_folder
from penstock.connectors.s3.s3_sink import S3Sink
from penstock.contract.ids import Attempt, Epoch
from penstock.contract.s3_options import FileFormat, S3Output
from penstock.testing import connectors as kit
from tests.support.long_tests import count
from tests.support.s3 import S3, SECRET, SECRET_VARIABLE, USER, USER_VARIABLE
from tests.support.staged_output import ROWS, TASK, numbers, staged
from tools.servers.s3 import S3Server

pytestmark = pytest.mark.timeout(1800)
EVERY = count(127, 1)  # outgoing calls


class Target:
    """A folder of a bucket, and a folder for what is staged."""

    def __init__(self, s3: S3, folder: Path, **options: object) -> None:
        self.s3, self.bucket = s3, s3.bucket()
        self._folder = folder / self.bucket
        keys = {"access_key": f"env:{USER_VARIABLE}", "secret_key": f"env:{SECRET_VARIABLE}"}
        given = {"url": f"s3://{self.bucket}/out/", "endpoint": s3.endpoint, "format": FileFormat.JSON, **keys}
        self.options = S3Output(**{**given, **options})  # type: ignore[arg-type]

    def sink(self) -> S3Sink:
        return S3Sink("out", self.options, ROWS.schema, self._folder)

    def claimed(self, uid: str = "job") -> S3Sink:
        sink = self.sink()
        sink.claim(uid, fresh=True)
        return sink

    def objects(self) -> list[str]:
        return [name for name in self.s3.names(self.bucket, "out/") if "/_penstock/" not in name]

    def visible(self) -> list[dict[str, object]]:
        texts = [self.s3.read(self.bucket, name) for name in self.objects()]
        return [json.loads(line) for text in texts for line in text.splitlines()]


def check_kit(endpoint: str, folder: Path) -> kit.SinkReport:
    return kit.check_sink(lambda: Target(S3(endpoint), folder), ROWS, every=EVERY)


def test_it_keeps_the_rules_of_a_sink_wherever_a_process_is_killed_stopped_or_given_an_error(
    s3: S3, tmp_path: Path
) -> None:
    # The kit forks, and the client's threads do not come along: so it runs in a process that has no client yet.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        report = process.submit(check_kit, s3.endpoint, tmp_path).result()
    assert min(report.killed, report.stopped, report.failed) >= report.calls // EVERY


def test_an_object_that_somebody_else_has_written_is_never_overwritten(s3: S3, tmp_path: Path) -> None:
    target = Target(s3, tmp_path)
    sink = target.claimed()
    handle = staged(sink, 1)
    name = "out/000000000001-out-001.0000.0000-000001-0000.jsonl"
    s3.write(target.bucket, name, b"theirs")
    with pytest.raises(StateError, match=f"{name} exists and is not the committed output: .*move that object away"):
        sink.publisher.publish(handle, Epoch(1))
    assert s3.read(target.bucket, name) == b"theirs"
    s3.delete(target.bucket, name)
    sink.publisher.publish(handle, Epoch(1))
    assert numbers(target) == Counter(range(18))


def test_nothing_is_lost_while_the_server_is_away(s3: S3, s3_server: S3Server, tmp_path: Path) -> None:
    target = Target(s3, tmp_path)
    sink = target.claimed()
    handle = staged(sink, 1)
    s3_server.kill()
    with pytest.raises(StorageError, match="check `endpoint`, and that the store runs"):
        sink.publisher.publish(handle, Epoch(1))
    s3_server.start()
    sink.publisher.publish(handle, Epoch(1))
    assert numbers(target) == Counter(range(18))


def test_a_committed_file_that_is_nowhere_stops_the_job(s3: S3, tmp_path: Path) -> None:
    target = Target(s3, tmp_path)
    sink = target.claimed()
    handle = staged(sink, 1)
    sink.publisher.discard(handle)
    with pytest.raises(StateError, match=r"is committed but neither it nor its staged file .* is there"):
        sink.publisher.publish(handle, Epoch(1))


def test_a_file_is_full_with_roll_bytes(s3: S3, tmp_path: Path) -> None:
    rows = pa.record_batch({"word": ["w" * 1000] * 200, "number": pa.array(range(200), pa.int64())})
    target = Target(s3, tmp_path, format=FileFormat.PARQUET, roll_bytes=64 * 1024)
    sink = target.claimed()
    writer = sink.writer(TASK, Attempt(1))
    for piece in range(0, 200, 10):
        writer.write(rows.slice(piece, 10))
    handle = writer.seal(Epoch(1), "cut").finish()
    assert handle is not None
    sink.publisher.publish(handle, Epoch(1))
    names = target.objects()
    assert [name[-12:] for name in names] == ["0000.parquet", "0001.parquet", "0002.parquet"]
    found = pa.concat_tables([pq.read_table(pa.BufferReader(s3.read(target.bucket, name))) for name in names])
    assert found.column("number").to_pylist() == list(range(200))


def test_rows_go_to_folders_and_arrow_reads_them_back(s3: S3, tmp_path: Path) -> None:
    target = Target(s3, tmp_path, format=FileFormat.PARQUET, partition_by="word")
    sink = target.claimed()
    handle = staged(sink, 1)
    for _ in range(2):
        sink.publisher.publish(handle, Epoch(1))
    target.claimed()
    names = [name.removeprefix("out/word=word%20") for name in target.objects()]
    assert names == [f"{n}/000000000001-out-001.0000.0000-000001-{n:04d}.parquet" for n in range(5)]
    for name in target.objects():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(s3.read(target.bucket, name))
    found = pq.read_table(tmp_path / "out", partitioning="hive").sort_by("number").to_pylist()
    assert found == [{"number": row["number"], "word": row["word"]} for row in ROWS.to_pylist()]


def test_only_the_savepoints_job_may_go_on_in_a_folder(s3: S3, tmp_path: Path) -> None:
    target = Target(s3, tmp_path)
    parent = target.claimed("parent")
    parent.publisher.publish(staged(parent, 1, ROWS.slice(0, 6)), Epoch(1))
    late = staged(parent, 2, ROWS.slice(6, 6))
    with pytest.raises(ConfigError, match=r"already holds 1 files that this job did not write .* of job parent"):
        target.claimed("stranger")
    child = target.sink()
    child.inherit("child", "parent", Epoch(1))
    with pytest.raises(StateError, match=r"job child has taken s3://.* over from this job"):
        parent.publisher.publish(late, Epoch(2))
    child.publisher.publish(staged(child, 2, ROWS.slice(12)), Epoch(2))
    target.claimed("child")
    with pytest.raises(ConfigError, match="holds output of job child up to epoch 2, above the savepoint"):
        target.sink().inherit("grandchild", "child", Epoch(1))
    assert numbers(target) == Counter([*range(6), *range(12, 18)])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"secret_key": "env:PENSTOCK_TESTS_S3_WRONG"}, "correct `accessKey` and `secretKey`"),
        ({"access_key": "env:PENSTOCK_TESTS_S3_WRONG"}, "correct `accessKey` and `secretKey`"),
        ({"access_key": "env:NO_SUCH"}, "there is no variable NO_SUCH"),
        ({"secret_key": None}, "accessKey and secretKey go together"),
    ],
)
def test_what_the_store_refuses_is_said_with_a_remedy_before_a_row_is_read(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object], said: str
) -> None:
    monkeypatch.setenv("PENSTOCK_TESTS_S3_WRONG", "not-the-key")
    with pytest.raises((Unusable, ConfigError), match=said) as told:
        Target(s3, tmp_path, **options).claimed()
    assert SECRET not in str(told.value)
    assert "not-the-key" not in str(told.value)


def test_a_bucket_that_is_not_there_is_refused_at_first_and_may_come_back_later(s3: S3, tmp_path: Path) -> None:
    target = Target(s3, tmp_path, url="s3://no-such-bucket-here/out")
    with pytest.raises(ConfigError, match="make the bucket, or correct `url`"):
        target.claimed()
    with pytest.raises(NotThere, match="make the bucket, or correct `url`"):
        target.sink().claim("job", fresh=False)


def test_without_keys_those_of_the_environment_are_used(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", USER)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    sink = Target(s3, tmp_path, access_key=None, secret_key=None).claimed()
    sink.publisher.publish(staged(sink, 1), Epoch(1))


def test_a_look_that_is_refused_is_told_though_its_answer_has_no_text(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_TESTS_S3_WRONG", "not-the-key")
    folder = open_folder(Target(s3, tmp_path, secret_key="env:PENSTOCK_TESTS_S3_WRONG").options)
    with pytest.raises(Unusable, match="correct the keys, or grant s3:ListBucket"):
        folder.version("any")


def test_an_address_where_nothing_is_may_be_tried_again(s3: S3, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="correct `endpoint`"):
        Target(s3, tmp_path, endpoint="http://no-such-host.invalid:1").claimed()
