"""The format of -latest: older ones are read, newer ones refused, and never written over."""

import json

import pytest

from penstock.base.errors import PeerError, StateError
from penstock.contract.codec import encode
from penstock.contract.ids import Epoch, JobUid, SwapId
from penstock.contract.latest import LATEST_FORMAT, Latest, decode_latest, encode_latest
from penstock.contract.pod import desired_name, latest_name
from penstock.keeper.effects import read_latest, refuse_newer
from penstock.ports import Versioned
from penstock.protocol import keeper_core_messages as km
from penstock.supervisor.job_objects import JobObjects
from tests.support.fakes import FakeMetaStore

LATEST = Latest(JobUid("u"), SwapId("s"), epoch=Epoch(7))


def record(**changes: object) -> bytes:
    plain = {**json.loads(encode(LATEST)), **changes}
    return json.dumps({k: v for k, v in plain.items() if v is not None}).encode()


def kept(data: bytes) -> FakeMetaStore:
    store = FakeMetaStore()
    store.create("latest", data)
    return store


def found_in(store: FakeMetaStore) -> Versioned:
    found = store.get("latest")
    assert found is not None
    return found


def test_a_record_without_a_format_is_read_and_gets_one_when_it_is_written() -> None:
    old = decode_latest(record(format=None))
    assert old == LATEST
    assert json.loads(encode_latest(old))["format"] == LATEST_FORMAT


@pytest.mark.parametrize("more", [{}, {"novelty": {"is": "Novelty"}}], ids=["known", "unknown"])
def test_a_newer_record_is_refused_in_words_and_stays_as_it_is(more: dict[str, object]) -> None:
    data = record(format=LATEST_FORMAT + 1, **more)
    with pytest.raises(StateError, match=f"format {LATEST_FORMAT + 1}, of a newer version"):
        decode_latest(data)
    store = kept(data)
    answer = read_latest(store, "latest", km.ReadLatest(1))
    assert isinstance(answer, km.LatestUnreadable)
    with pytest.raises(StateError):
        refuse_newer(store, "latest")
    assert found_in(store).data == data


def test_what_is_no_record_is_no_newer_one() -> None:
    for data in (b"", b"{", record(novelty=1), record(format="x")):
        with pytest.raises(PeerError):
            decode_latest(data)
    refuse_newer(kept(b"{"), "latest")  # who leads reads it again, and says what is wrong


def test_a_run_on_one_machine_begins_nothing_on_a_newer_record() -> None:
    store = FakeMetaStore()
    data = record(format=LATEST_FORMAT + 1)
    store.create(latest_name("words"), data)
    with pytest.raises(StateError, match="run the version that wrote it"):
        JobObjects(store, "words", JobUid("u")).begin(1, None)
    found = store.get(latest_name("words"))
    assert found is not None
    assert found.data == data
    assert store.get(desired_name("words")) is None
