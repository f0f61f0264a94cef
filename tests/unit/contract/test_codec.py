"""The contract's JSON is exact both ways and refuses what it does not know."""

import json
import subprocess
import sys

import numpy as np
import pytest

from penstock.base.errors import PeerError
from penstock.base.limits import JSON_DEPTH_MAX
from penstock.cluster.link import TermedCommand
from penstock.contract.codec import Message, decode, depth_of, digest, encode, parsed
from penstock.contract.control_messages import EngineHello, Envelope, Inject
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
from penstock.contract.status import (
    CheckpointDone,
    CheckpointStatus,
    JobState,
    JobStatus,
    StepStatus,
    WorkerReport,
)
from penstock.model.ingest_messages import Hello

INJECT = Envelope(JobUid("u"), Term(3), Ordinal(1), Inject(Attempt(2), Epoch(7), Version(1), 0, Epoch(6)))


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
        (b"[]", "Expected `object`, got `array`"),
        (changed(epok=1), r"unknown field `epok` - at `\$\.body`"),
        (changed(epoch="7"), r"Expected `int`, got `str` - at `\$\.body\.epoch`"),
        (changed(epoch=True), r"Expected `int`, got `bool` - at `\$\.body\.epoch`"),
        (changed(**{"is": "Injekt"}), r"Invalid value 'Injekt' - at `\$\.body\.is`"),
    ],
)
def test_what_is_not_known_is_refused_with_its_place(data: bytes, message: str) -> None:
    with pytest.raises(PeerError, match=message):
        decode(Envelope, data)


def test_a_missing_field_is_named() -> None:
    plain = json.loads(encode(INJECT))
    del plain["body"]["epoch"]
    with pytest.raises(PeerError, match=r"missing required field `epoch` - at `\$\.body`"):
        decode(Envelope, json.dumps(plain).encode())


def test_an_unknown_partitioning_is_refused() -> None:
    data = encode(EdgePlan(0, StageIndex(0), StageIndex(1), Partitioning.KEY))
    with pytest.raises(PeerError, match=r"Invalid enum value 'keys' - at `\$\.partitioning`"):
        decode(EdgePlan, data.replace(b'"key"', b'"keys"'))


def test_a_value_outside_the_contract_is_a_defect() -> None:
    class Odd(Message, tag="Odd"):
        number: complex

    with pytest.raises(TypeError, match="complex is not part of the contract"):
        encode(Odd(1j))


def test_a_class_with_another_name_reads_what_was_stored_before() -> None:
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
    assert decode(JobStatus, data) == status
    for nonsense in (b"{", b"[]", b'{"job": 1}'):
        with pytest.raises(PeerError):
            decode(JobStatus, nonsense)


DEEP = {"lists": b"[" * 100_000, "objects": b'{"a":' * 50_000, "whole": b"[" * 9_000 + b"]" * 9_000}


@pytest.mark.parametrize("text", DEEP)
@pytest.mark.parametrize(
    "kind",
    [Latest, Desired, JobStatus, WorkerReport, RootManifest, TermedCommand, Envelope, Hello],
)
def test_what_is_nested_deep_is_no_message(kind: type, text: str) -> None:
    """Either its type ends the reading, or the bound of all JSON does."""
    with pytest.raises(PeerError, match=r"Expected `object`|unknown field `a`|more than 64 deep"):
        decode(kind, DEEP[text])


@pytest.mark.parametrize("nest", DEEP)
def test_an_unknown_field_that_is_nested_deep_is_an_error_of_ours(nest: str) -> None:
    data = b'{"job":"words","novelty":' + 30 * DEEP[nest]
    limit = sys.getrecursionlimit()
    try:
        for deep in (limit, 30_000):  # the second one is the operator's
            sys.setrecursionlimit(deep)
            with pytest.raises(PeerError, match="nested more than 64 deep"):
                decode(JobStatus, data)
    finally:
        sys.setrecursionlimit(limit)


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
        with pytest.raises(PeerError, match=r"out of range|Expected `int`, got `float`"):
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
        with pytest.raises(PeerError, match=r"at `\$\.body\.is`"):
            decode(Envelope, changed(**{"is": tag}))
    status = json.loads(encode(JobStatus("words", "u", JobState.RUNNING, 5)))
    for word in words:
        data = json.dumps({**status, "state": word}).encode()
        with pytest.raises(PeerError, match=r"at `\$\.state`"):
            decode(JobStatus, data)


class Named(Message, tag="Named"):
    text: str = ""
    number: float = 0.0


@pytest.mark.parametrize("text", ["größe", "\u2028", "\U0001f600", "\x00\x7f", '"\\/'])
def test_any_text_is_read_back_and_was_before(text: str) -> None:
    """Older releases wrote only ASCII; both forms are read."""
    assert decode(Named, encode(Named(text))) == Named(text)
    assert decode(Named, json.dumps({"is": "Named", "text": text}).encode()) == Named(text)


@pytest.mark.parametrize("text", ["\udcff", "a\ud800", "\udc00\ud800b"])
def test_the_name_of_a_file_that_is_no_utf8_is_read_back(text: str) -> None:
    assert decode(Named, encode(Named(text))) == Named(text)
    with pytest.raises(PeerError, match=r"unknown field `more`"):
        decode(Named, json.dumps({"text": text, "more": 1}).encode())


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 2**64 - 1])
def test_a_whole_number_of_64_bits_is_read_back(number: int) -> None:
    assert decode(CheckpointDone, encode(CheckpointDone(number, 0, 0.0))).epoch == number


@pytest.mark.parametrize("number", [-(2**63) - 1, 2**64, 10**30])
def test_a_whole_number_beyond_64_bits_is_refused(number: int) -> None:
    with pytest.raises(PeerError, match=r"a whole number of \d+ digits is out of range"):
        decode(CheckpointDone, encode(CheckpointDone(number, 0, 0.0)))


@pytest.mark.parametrize("number", [1e16, 1e-7, 5e-324, -0.0, 10.0, 1.7976931348623157e308])
def test_any_number_is_read_back_and_was_before(number: float) -> None:
    assert decode(Named, encode(Named(number=number))) == Named(number=number)
    assert decode(Named, json.dumps({"number": number}).encode()) == Named(number=number)


def test_numbers_of_numpy_are_written_as_plain_ones() -> None:
    assert encode(Named(number=np.float64(1.5))) == encode(Named(number=1.5))


# The types of `Outer` are being learned while those of `Inner` are. Then another thread reads an `Outer`.
TWO_THREADS = """
import threading
from penstock.contract.codec import Message, decode, encode

def other_thread_reads():
    other.start()
    other.join(0.2)  # it waits for this thread, or ends; or the process does
    return int

class Inner(Message, tag="Inner"):
    value: "other_thread_reads()"

class Outer(Message, tag="Outer"):
    inner: Inner

text = encode(Outer(Inner(7)))
found = []
other = threading.Thread(target=lambda: found.append(decode(Outer, text)))
found.append(decode(Outer, text))
other.join()
print(found)
"""


def test_a_class_is_not_read_while_another_thread_learns_its_types() -> None:
    done = subprocess.run([sys.executable, "-c", TWO_THREADS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "[Outer(inner=Inner(value=7)), Outer(inner=Inner(value=7))]\n"
