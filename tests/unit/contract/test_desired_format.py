"""The format of -desired: one without is read, a newer one is refused and never written over."""

import json

import pytest

from penstock.base.errors import PeerError, StateError
from penstock.contract.codec import decode, encode
from penstock.contract.ids import JobUid, SwapId
from penstock.contract.latest import (
    DESIRED_FORMAT,
    Desired,
    Latest,
    Restore,
    decode_desired,
    encode_desired,
    encode_latest,
)
from penstock.contract.pod import desired_name, latest_name
from penstock.keeper.effects import read_desired
from penstock.supervisor.job_objects import JobObjects
from tests.support.fakes import FakeMetaStore

DESIRED = Desired(3, restore=Restore("n", drop_state=("count",)), run="run-1")


def record(**changes: object) -> bytes:
    return json.dumps({**json.loads(encode_desired(DESIRED)), **changes}).encode()


def test_the_first_format_is_written_as_workers_read_it_that_know_no_format() -> None:
    written = json.loads(encode_desired(DESIRED))
    fields = ["is", "requests", "restore", "run", "workers"]
    assert sorted(written) == fields, "one field more would stop them"
    assert decode_desired(encode_desired(DESIRED)) == DESIRED
    assert decode(Desired, encode_desired(DESIRED)) == DESIRED
    assert json.loads(encode_desired(Desired(1, format=2)))["format"] == 2


def test_a_field_that_does_not_raise_the_format_is_left_aside() -> None:
    for changes in ({"novelty": 1}, {"format": DESIRED_FORMAT, "novelty": {"is": "Novelty"}}):
        assert decode_desired(record(**changes)) == DESIRED


@pytest.mark.parametrize("more", [{}, {"novelty": 1}, {"workers": "many"}])
def test_a_newer_record_is_refused_in_words_and_stays_as_it_is(more: dict[str, object]) -> None:
    data = record(format=DESIRED_FORMAT + 1, **more)
    with pytest.raises(StateError, match=f"-desired has the format {DESIRED_FORMAT + 1}, of a new"):
        decode_desired(data)
    store = FakeMetaStore()
    latest = Latest(JobUid("u"), SwapId("s"))
    store.create(latest_name("words"), encode_latest(latest))
    store.create(desired_name("words"), data)
    with pytest.raises(StateError):
        read_desired(store, desired_name("words"))
    with pytest.raises(StateError):
        JobObjects(store, "words", JobUid("u")).rescale(4)
    found = store.get(desired_name("words"))
    assert found is not None
    assert found.data == data


def test_what_is_no_record_is_no_newer_one() -> None:
    for data in (
        b"",
        b"{",
        b"[]",
        record(format="x"),
        record(workers="many"),
        encode(Restore("n")),
    ):
        with pytest.raises(PeerError):
            decode_desired(data)
