"""Objects of a real server as a source: the rules of the kit, and every change of an object is an error."""

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.base.errors import ConfigError, StateError, StorageError, is_storage_away
from penstock.connectors.missing import NotThere
from penstock.connectors.open_connectors import ConnectorInspector, open_sink, open_source
from penstock.contract.columns import Column
from penstock.contract.graph import Connector, Source
from penstock.contract.ids import Attempt, Epoch, Ordinal, StageIndex, TaskId
from penstock.ports import Source as SourcePort
from penstock.testing import connectors as kit
from tests.support.s3 import S3, SECRET, SECRET_VARIABLE, USER_VARIABLE

COLUMNS = (Column("n", "int64"), Column("word", "string"))
ROWS = 12
WIDE = 30_000  # characters of a word


def parquet(rows: range, width: int = 0) -> bytes:
    out, words = io.BytesIO(), [f"w{n}".ljust(width, "-") for n in rows]
    table = pa.table({"n": [*rows], "word": words})
    pq.write_table(table, out, row_group_size=5, compression="none", use_dictionary=False)
    return out.getvalue()


def json_lines(rows: range, width: int = 0) -> bytes:
    return b"".join(json.dumps({"n": n, "word": f"w{n}".ljust(width, "-")}).encode() + b"\n" for n in rows)


def csv(rows: range, width: int = 0) -> bytes:
    return b"word,n\n" + b"".join(b"%s,%d\n" % (f"w{n}".ljust(width, "-").encode(), n) for n in rows)


FORMATS: dict[str, tuple[str, Callable[..., bytes]]] = {
    "parquet": (".parquet", parquet),
    "json": (".jsonl", json_lines),
    "csv": (".csv", csv),
}


class Input:
    """A folder of a bucket with two objects of one format."""

    def __init__(self, s3: S3, kind: str, **options: object) -> None:
        self.s3, self.kind, self.bucket = s3, kind, s3.bucket()
        self.end, self.content = FORMATS[kind]
        self.options: dict[str, object] = options
        self.write("a", range(ROWS))
        self.write("b", range(ROWS, 2 * ROWS))
        for other in ("_SUCCESS", "sub/c" + self.end, "notes.txt"):
            s3.write(self.bucket, f"in/{other}", b"no input")

    def write(self, name: str, rows: range, width: int = 0) -> None:
        self.s3.write(self.bucket, f"in/{name}{self.end}", self.content(rows, width))

    def connector(self) -> Connector:
        keys = {"access_key": f"env:{USER_VARIABLE}", "secret_key": f"env:{SECRET_VARIABLE}"}
        given = {"endpoint": self.s3.endpoint, **keys, **self.options}
        return ps.s3(f"s3://{self.bucket}/in", format=self.kind, **given)  # type: ignore[arg-type]

    def source(self) -> SourcePort:
        return open_source(Source(self.connector(), COLUMNS))


@pytest.mark.parametrize("kind", FORMATS)
def test_it_gives_the_same_rows_from_every_position(s3: S3, kind: str) -> None:
    given = Input(s3, kind)
    inspector = ConnectorInspector()
    inspector.check_files(given.connector(), COLUMNS)
    assert inspector.source_schema(given.connector(), COLUMNS).names == ["n", "word"]
    assert inspector.bounded(given.connector())
    assert kit.check_source(given.source) == 2 * ROWS


def test_packed_lines_are_read(s3: S3) -> None:
    given = Input(s3, "json")
    s3.write(given.bucket, "in/c.jsonl.gz", gzip.compress(json_lines(range(2 * ROWS, 3 * ROWS))))
    assert kit.check_source(given.source) == 3 * ROWS


def test_a_followed_folder_gives_each_object_once_also_one_that_comes_later(s3: S3) -> None:
    given = Input(s3, "csv", follow=0.1)
    source = given.source()
    assert not source.bounded
    states, seen = source.splits(), list[int]()

    def read_all() -> None:
        for index, state in enumerate(states):
            reader = source.open(state)
            while (read := reader.read(1000)) is not None:
                seen.extend(read.batch.column(0).to_pylist())
            states[index] = reader.state()
            reader.close()

    read_all()
    given.write("later", range(2 * ROWS, 3 * ROWS))
    read_all()
    assert sorted(seen) == [*range(3 * ROWS)]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("spoil", ["rewritten", "grown", "removed"])
def test_an_object_that_has_changed_is_an_error_that_names_it(s3: S3, kind: str, spoil: str) -> None:
    given = Input(s3, kind)
    name = f"in/a{given.end}"

    def change() -> None:
        match spoil:
            case "rewritten":  # of the same size
                s3.write(given.bucket, name, given.content(range(ROWS)).replace(b"w1", b"x1"))
            case "grown":
                given.write("a", range(ROWS + 1))
            case "removed":
                s3.delete(given.bucket, name)

    kit.check_bad_input(given.source, f"s3://{given.bucket}/{name}", change)


@pytest.mark.parametrize("kind", FORMATS)
def test_rows_of_two_versions_are_never_mixed(s3: S3, kind: str) -> None:
    given = Input(s3, kind)
    given.write("a", range(100), WIDE)
    source = given.source()
    reader = source.open(source.splits()[0])
    seen: list[int] = []

    def read_on() -> None:
        while (read := reader.read(1)) is not None:
            seen.extend(read.batch.column(0).to_pylist())
            if len(seen) == 3:
                given.write("a", range(1000, 1100), WIDE)  # of the same size

    with pytest.raises(StateError, match=f"s3://{given.bucket}/in/a{given.end}"):
        read_on()
    assert seen == [*range(len(seen))]
    assert len(seen) < 100


def test_a_folder_without_input_and_a_bucket_that_is_not_there_are_told(s3: S3) -> None:
    given, inspector = Input(s3, "json"), ConnectorInspector()

    def told(said: str, error: type[Exception] = ConfigError, **options: object) -> None:
        changed = {**given.connector().options, "format": "parquet", **options}
        with pytest.raises(error, match=said):
            inspector.source_schema(Connector("s3", changed), COLUMNS)  # type: ignore[arg-type]

    told(r"s3://.*/in has no \*.parquet file; passed over: _SUCCESS \(hidden\), a.jsonl")
    told("make the bucket, or correct `url`", NotThere, url="s3://no-such-bucket-here")
    told("follow: it reads json and csv", follow=1.0)


@pytest.mark.parametrize("kind", FORMATS)
def test_keys_that_are_refused_for_a_moment_are_asked_for_again(
    s3: S3, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Input(s3, kind)
    splits = given.source().splits()

    def refused(ask: Callable[[], object]) -> None:
        monkeypatch.setenv(SECRET_VARIABLE, "not-the-key")
        with pytest.raises(StorageError, match=r"correct `accessKey` and `secretKey`|correct the keys") as told:
            ask()
        assert is_storage_away(told.value), "no restart is counted"
        monkeypatch.setenv(SECRET_VARIABLE, SECRET)

    refused(lambda: given.source().splits())  # as a worker starts
    source = given.source()
    refused(lambda: given.source().open(splits[0]).read(1))
    assert source.splits() == splits
    assert source.open(splits[0]).read(1) is not None


@pytest.mark.parametrize("kind", FORMATS)
def test_folders_that_a_sink_has_named_are_read_as_the_same_values(s3: S3, tmp_path: Path, kind: str) -> None:
    words = [
        "a/b",
        "x%2Fy",
        "ü %",
        "é\u0301𝄞",
        "a=b&c?d#e+f",
        "..",
        ".",
        "~",
        "a\\b",
        '"q"',
        "  ",
        None,
        "a:b*c<d>|e\n",
    ]
    rows = pa.record_batch({"n": pa.array(range(len(words)), pa.int64()), "word": words})
    bucket = s3.bucket()
    keys = {"endpoint": s3.endpoint, "access_key": f"env:{USER_VARIABLE}", "secret_key": f"env:{SECRET_VARIABLE}"}
    place = ps.s3(f"s3://{bucket}/out", format=kind, partition_by="word", **keys)
    sink = open_sink("out", place, rows.schema, staging=tmp_path)
    sink.claim("job", fresh=True)
    writer = sink.writer(TaskId(StageIndex(1), Ordinal(0), 0), Attempt(1))
    writer.write(rows)
    handle = writer.seal(Epoch(1), "cut").finish()
    assert handle is not None
    sink.publisher.publish(handle, Epoch(1))
    sink.close()
    source = open_source(Source(place, COLUMNS))
    reads = [source.open(state).read(10) for state in source.splits()]
    found = [row for read in reads if read is not None for row in read.batch.to_pylist()]
    assert sorted(found, key=lambda row: row["n"]) == rows.to_pylist()
