"""The contract's JSON is exact both ways and refuses what it does not know."""

import json
from dataclasses import dataclass

import pytest

from penstock.base.errors import PeerError
from penstock.contract.codec import decode, decode_known, digest, encode
from penstock.contract.control import EngineHello, Envelope, Inject
from penstock.contract.ids import (
    Attempt,
    Epoch,
    Incarnation,
    JobUid,
    Ordinal,
    StageIndex,
    Term,
    Version,
)
from penstock.contract.plan import EdgePlan, Partitioning, PhysicalPlan, StagePlan
from penstock.contract.status import CheckpointStatus, JobState, JobStatus, StepStatus

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
    class Odd:
        raw: bytes

    with pytest.raises(TypeError, match="bytes is not part of the contract"):
        encode(Odd(b""))


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
