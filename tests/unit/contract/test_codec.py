"""The contract's JSON is exact both ways and refuses what it does not know."""

import json
from dataclasses import dataclass

import pytest

from penstock.base.errors import PeerError
from penstock.base.limits import JSON_DEPTH_MAX
from penstock.cluster.link import TermedCommand
from penstock.contract.codec import Message, decode, decode_known, depth_of, digest, encode, parsed
from penstock.contract.control import EngineHello, Envelope, Inject
from penstock.contract.ids import (
    Attempt,
    BlobName,
    Epoch,
    Incarnation,
    JobUid,
    Ordinal,
    StageIndex,
    Term,
    Version,
)
from penstock.contract.latest import Desired, Latest
from penstock.contract.manifest import BlobRef, RootManifest
from penstock.contract.plan import EdgePlan, Partitioning, PhysicalPlan, StagePlan
from penstock.contract.progress import WorkerReport
from penstock.contract.status import CheckpointStatus, JobState, JobStatus, StepStatus
from penstock.model.ingest import Hello

INJECT = Envelope(
    JobUid("u"), Term(3), Ordinal(1), Inject(Attempt(2), Epoch(7), Version(1), 0, Epoch(6))
)


def changed(**fields: object) -> bytes:
    """Encode INJECT with its body's fields replaced."""
    plain = json.loads(encode(INJECT))
    plain["body"].update(fields)
    return json.dumps(plain).encode()


def test_a_message_survives_the_round_trip() -> None:
    assert decode(Envelope, encode(INJECT)) == INJECT


def test_a_plan_with_enums_and_tuples_survives_the_round_trip() -> None:
    stage = StagePlan(StageIndex(0), "count", ("key", "count"), keyed=True)
    edge = EdgePlan(0, StageIndex(0), StageIndex(0), Partitioning.KEY)
    plan = PhysicalPlan("job", 256, (stage,), (edge,), "f")
    hello = EngineHello(Ordinal(0), Incarnation("i"), "a:1", plan)
    assert decode(EngineHello, encode(hello)) == hello


def test_equal_values_have_equal_bytes() -> None:
    assert encode(INJECT) == encode(decode(Envelope, encode(INJECT)))
    assert len(digest(encode(INJECT))) == 64


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "not JSON"),
        (b"[]", "expected an object"),
        (changed(epok=1), "unknown field 'epok': did you mean 'epoch'"),
        (changed(epoch="7"), "epoch: expected a whole number, got str"),
        (changed(epoch=True), "epoch: expected a whole number, got bool"),
        (changed(**{"is": "Injekt"}), "unknown message 'Injekt': did you mean 'Inject'"),
    ],
)
def test_what_is_not_known_is_refused_with_its_place(data: bytes, message: str) -> None:
    with pytest.raises(PeerError, match=message):
        decode(Envelope, data)


def test_a_missing_field_is_named() -> None:
    plain = json.loads(encode(INJECT))
    del plain["body"]["epoch"]
    with pytest.raises(PeerError, match="field 'epoch' is missing"):
        decode(Envelope, json.dumps(plain).encode())


def test_an_unknown_partitioning_is_refused() -> None:
    data = encode(EdgePlan(0, StageIndex(0), StageIndex(1), Partitioning.KEY))
    with pytest.raises(PeerError, match=r"partitioning: expected one of key, forward"):
        decode(EdgePlan, data.replace(b'"key"', b'"keys"'))


def test_a_value_outside_the_contract_is_a_defect() -> None:
    @dataclass(frozen=True, slots=True)
    class Odd(Message, tag="Odd"):
        raw: bytes

    @dataclass(frozen=True, slots=True)
    class Untagged:
        number: int

    with pytest.raises(TypeError, match="bytes is not part of the contract"):
        encode(Odd(b""))
    with pytest.raises(TypeError, match="Untagged is not part of the contract"):
        encode(Untagged(1))


def test_a_class_with_another_name_reads_what_was_stored_before() -> None:
    @dataclass(frozen=True, slots=True)
    class Renamed(Message, tag="BlobRef"):
        name: str
        sha256: str
        size: int

    stored = BlobRef(BlobName("a"), "b", 3)
    assert decode(Renamed, encode(stored)) == Renamed("a", "b", 3)
    assert encode(Renamed("a", "b", 3)) == encode(stored)


def test_a_view_of_another_version_is_read_without_what_is_new() -> None:
    status = JobStatus(
        "words",
        "u",
        JobState.RUNNING,
        5,
        steps=(StepStatus("a", 1), StepStatus("b", 2, rows_in=7)),
        checkpoint=CheckpointStatus(3, 4, 5, 0.5, "p"),
    )
    plain = json.loads(encode(status))
    plain["novelty"] = {"is": "Novelty"}
    plain["checkpoint"]["zone"] = "x"
    plain["steps"][1]["heat"] = 1.5
    data = json.dumps(plain).encode()
    assert decode_known(JobStatus, data) == status
    with pytest.raises(PeerError):
        decode(JobStatus, data)
    for nonsense in (b"{", b"[]", b'{"job": 1}'):
        with pytest.raises(PeerError):
            decode_known(JobStatus, nonsense)


DEEP = {"lists": b"[" * 100_000, "objects": b'{"a":' * 50_000, "whole": b"[" * 9_000 + b"]" * 9_000}


@pytest.mark.parametrize("text", DEEP)
@pytest.mark.parametrize(
    "kind",
    [Latest, Desired, JobStatus, WorkerReport, RootManifest, TermedCommand, Envelope, Hello],
)
def test_what_is_nested_deep_is_no_message(kind: type, text: str) -> None:
    with pytest.raises(PeerError, match=r"nested more than 64 deep"):
        decode(kind, DEEP[text])


def test_a_bound_of_depth_is_exact_and_no_text_counts() -> None:
    assert parsed("[" * JSON_DEPTH_MAX + "]" * JSON_DEPTH_MAX)
    with pytest.raises(PeerError, match="nested more than 64 deep"):
        parsed("[" * (JSON_DEPTH_MAX + 1) + "]" * (JSON_DEPTH_MAX + 1))
    mixed = '{"a":[' * (JSON_DEPTH_MAX // 2)
    closed = mixed + "]}" * (JSON_DEPTH_MAX // 2)
    assert parsed(closed)
    with pytest.raises(PeerError, match="nested more than 64 deep"):
        parsed(f"[{closed}]")
    assert parsed(json.dumps(["[{" * 1_000, [{}] * 1_000])), "wide is not deep"


NO_JSON = {
    "no UTF-8": b"\xff\xfe",
    "no end": b"[1",
    "nothing": b"",
    "a zero": b"\0",
    "a zero in a text": b'"\0"',
    "a mark of the byte order": b"\xef\xbb\xbf{}",
    "too many digits": b'{"a":' + b"9" * 5_000 + b"}",
    "NaN": b'{"a":NaN}',
    "an infinity": b"[-Infinity]",
}


@pytest.mark.parametrize("data", NO_JSON.values(), ids=NO_JSON)
def test_what_is_no_json_is_an_error_of_ours(data: bytes) -> None:
    with pytest.raises(PeerError, match="not JSON"):
        parsed(data)


@pytest.mark.parametrize("number", ["1e999", "-1e999", "9" * 400, "1" + "0" * 4_000])
def test_a_number_beyond_all_bounds_is_an_error_of_ours(number: str) -> None:
    """Some of them have no float; a report or a record with another one would go on being wrong."""
    status = encode(JobStatus("words", "u", JobState.RUNNING, 5)).decode()
    whole = status.replace('"time_us":5', f'"time_us":{number}')
    load = StepStatus("words", 0, 1, 1, 0, 0, 0.5, 0.25)
    share = encode(load).decode().replace("0.25", number)
    assert whole != status
    for kind, text in ((JobStatus, whole), (StepStatus, share)):
        with pytest.raises(PeerError, match=r"\$\.\w+: (a|expected a) .*number"):
            decode(kind, text.encode())


def test_what_is_too_long_is_not_parsed() -> None:
    assert parsed("[1]", bytes_max=3) == [1]
    with pytest.raises(PeerError, match="JSON of 4 bytes, at most 3 are read"):
        parsed(b"[12]", bytes_max=3)


def test_brackets_in_texts_are_not_counted_and_a_text_without_an_end_is_one() -> None:
    plain = {"a": ['[[[{{\\"[[', "\\", ["x"]], "b]": {}}
    assert depth_of(json.dumps(plain).encode()) == 3
    assert depth_of(b'[["[[[[') == 2
    assert depth_of(b'[["[[[[\\') == 2
    assert depth_of(b'"' + b'\\"' * 1_000_000) == 0, "in linear time"


def test_a_tag_that_is_no_text_and_a_list_for_a_word_are_errors_of_ours() -> None:
    words: tuple[object, ...] = ([], {}, 1, None)
    for tag in words:
        with pytest.raises(PeerError, match="unknown message"):
            decode(Envelope, changed(**{"is": tag}))
    status = json.loads(encode(JobStatus("words", "u", JobState.RUNNING, 5)))
    for word in words:
        data = json.dumps({**status, "state": word}).encode()
        with pytest.raises(PeerError, match="expected one of"):
            decode(JobStatus, data)
