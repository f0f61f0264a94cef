"""Who owns a folder of a bucket, and which stores are refused; the store is the client's own, in memory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from obstore.store import MemoryStore

from penstock.base.errors import ConfigError, StateError, StorageError
from penstock.connectors.file_output import parquet_form
from penstock.connectors.file_sink import FileSink
from penstock.connectors.missing import NotThere
from penstock.connectors.s3.object_folder import ObjectFolder, Unusable, told
from penstock.connectors.s3.owned_folder import OwnedFolder
from penstock.connectors.s3.s3_sink import S3Publisher
from penstock.connectors.text_formats import json_form
from penstock.contract.ids import Epoch, JobUid
from penstock.contract.manifest import Origin
from penstock.file_system import OS_FILES
from tests.support.staged_output import ROWS, staged

ME, OTHER = JobUid("me"), JobUid("other")
FIRST = "000000000007-out-001.0000.0000-000001-0000.parquet"


class Store:
    """A store in memory. A derived one breaks a rule."""

    def __init__(self) -> None:
        self.kept = MemoryStore()

    def put(self, name: str, data: bytes, **how: Any) -> object:
        return self.kept.put(name, data, **how)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kept, name)


class Overwrites(Store):
    """It does not know the condition."""

    def put(self, name: str, data: bytes, **how: Any) -> object:
        return self.kept.put(name, data, use_multipart=False)


class TwoWinners(Store):
    """It tells the second writer of a probe that it was the first."""

    def __init__(self) -> None:
        super().__init__()
        self.probes = 0

    def put(self, name: str, data: bytes, **how: Any) -> object:
        self.probes += "probe" in name
        if self.probes == 2 and "probe" in name:
            return None
        return self.kept.put(name, data, **how)


def owned(store: Store | None = None) -> tuple[OwnedFolder, Store]:
    found = store or Store()
    return OwnedFolder(ObjectFolder("s3://b/f", lambda: found)), found


def test_a_folder_has_one_owner_and_no_object_is_written_twice() -> None:
    folder, store = owned()
    folder.take(ME, None)
    folder.take(ME, None)
    folder.check()
    assert [meta["path"] for chunk in store.list() for meta in chunk] == ["_penstock/owner-000001.json"]


@pytest.mark.parametrize("kind", [Overwrites, TwoWinners])
def test_a_store_that_does_not_keep_the_condition_is_refused(kind: Callable[[], Store]) -> None:
    folder, _ = owned(kind())
    with pytest.raises(ConfigError, match=r"lets \d writers create one object.*needs PutObject with If-None-Match"):
        folder.take(ME, None)


def test_an_empty_folder_of_another_job_is_taken_and_that_job_istold() -> None:
    first, store = owned()
    first.take(OTHER, None)
    second, _ = owned(store)
    second.take(ME, None)
    with pytest.raises(StateError, match=r"job me has taken s3://b/f over from this job \(other\)"):
        first.check()
    second.check()


def test_files_of_somebody_else_are_left_alone() -> None:
    folder, store = owned()
    store.kept.put(FIRST, b"rows")
    with pytest.raises(ConfigError, match=r"s3://b/f already holds 1 files that this job did not write"):
        folder.take(ME, None)
    assert [meta["path"] for chunk in store.list() for meta in chunk] == [FIRST]


def test_a_parent_that_has_published_more_meanwhile_gets_its_folder_back() -> None:
    parent, store = owned()
    parent.take(OTHER, None)
    store.kept.put(FIRST, b"rows")

    class Meanwhile(Store):
        """The parent publishes while the child writes that it is the owner."""

        def put(self, name: str, data: bytes, **how: Any) -> object:
            if name.endswith("owner-000002.json"):
                store.kept.put(FIRST.replace("7", "8"), b"more rows")
            return store.kept.put(name, data, **how)

        def __getattr__(self, name: str) -> Any:
            return getattr(store.kept, name)

    child, _ = owned(Meanwhile())
    with pytest.raises(ConfigError, match="holds output of job other up to epoch 8, above the savepoint"):
        child.take(ME, Origin(OTHER, Epoch(7)))
    parent.check()


def test_of_two_jobs_that_take_a_folder_at_once_one_has_it() -> None:
    store = Store()

    class Slower(Store):
        """Another job is quicker by one call."""

        def put(self, name: str, data: bytes, **how: Any) -> object:
            if name.endswith("owner-000001.json"):
                store.kept.put(name, b'{"job_uid": "other"}')
                store.kept.put(FIRST, b"rows")
            return store.kept.put(name, data, **how)

        def __getattr__(self, name: str) -> Any:
            return getattr(store.kept, name)

    folder, _ = owned(Slower())
    with pytest.raises(ConfigError, match="they are output of job other: name an empty folder"):
        folder.take(ME, None)


def test_a_file_is_published_in_the_format_in_which_it_was_staged(tmp_path: Path) -> None:
    """The format of the sink may be another one after a crash. Its rows were there twice, once with a wrong ending."""
    folder, store = owned()
    folder.take(ME, None)
    sink = FileSink("out", str(tmp_path), parquet_form(ROWS.schema))
    sink.claim(ME, fresh=True)
    handle = staged(sink, 1)
    for form in (parquet_form(ROWS.schema), json_form(ROWS.schema)):
        publisher = S3Publisher(folder, sink, ("out", form), tmp_path, OS_FILES)
        publisher.claimed(ME)
        publisher.publish(handle, Epoch(1))
    found = [each["path"] for page in store.kept.list() for each in page]
    assert [name for name in found if "-out-" in name] == ["000000000001-out-001.0000.0000-000001-0000.parquet"]
    sink.close()


def test_an_object_is_created_once_and_its_content_istold() -> None:
    folder, _ = owned()[0].folder, None
    assert folder.create("a/b", b"one")
    assert not folder.create("a/b", b"two")
    assert folder.read("a/b") == b"one"
    assert folder.content("a/b") is not None
    assert folder.content("a/c") is None
    assert folder.read("a/c") is None
    folder.delete("a/b")
    folder.delete("a/b")
    assert folder.names() == []


def test_only_code_and_message_of_a_store_are_shown_and_of_a_client_what_helps() -> None:
    text = "Client error: <Error><Code>SignatureDoesNotMatch</Code><Message>No.</Message><StringToSign>x</StringToSign>"
    assert told(text) == "SignatureDoesNotMatch: No.: correct `accessKey` and `secretKey`"
    away = (
        "Generic S3 error: Error performing list request: Error performing GET http://h:1/b?list-type=2 in 294.5ms,"
        " after 2 retries, max_retries: 2, retry_timeout: 60s  - HTTP error: Connection refused\n\nDebug source: x"
    )
    assert told(away) == (
        "Error performing GET http://h:1/b?list-type=2 - HTTP error: Connection refused: check `endpoint`, and that the"
        " store runs"
    )


def test_a_refusal_makes_a_new_connection_next_time_because_keys_may_have_changed() -> None:
    made = []

    def connect() -> Store:
        made.append(Store())
        return made[-1]

    folder = ObjectFolder("s3://b", connect)
    assert folder.names() == folder.names() == []
    assert len(made) == 1

    class Refuses(Store):
        def list(self, *_: object) -> object:
            raise FileNotFoundError("<Code>AccessDenied</Code>")

    made.clear()
    broken = ObjectFolder("s3://b", lambda: made.append(Refuses()) or made[-1])  # type: ignore[func-returns-value]
    for _ in range(2):
        with pytest.raises(Unusable, match="AccessDenied: correct the keys, or grant"):
            broken.names()
    assert len(made) == 2
    assert issubclass(Unusable, StorageError)


def test_a_bucket_that_is_gone_is_no_object_that_is_not_there() -> None:
    class Gone(Store):
        def get(self, *_: object) -> object:
            raise FileNotFoundError("<Code>NoSuchBucket</Code><Message>gone</Message>")

        head = delete = get

    folder = ObjectFolder("s3://b", Gone)
    for ask in (folder.read, folder.content, folder.version, folder.delete):
        with pytest.raises(NotThere, match=r"s3://b/a: NoSuchBucket: gone: make the bucket"):
            ask("a")
