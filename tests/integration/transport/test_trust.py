"""Only workers of the same job can join a shuffle, over real sockets."""

import socket
import ssl
from collections.abc import Callable
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.flight as fl
import pytest

from penstock.base.values import replace
from penstock.contract.ids import (
    Attempt,
    ChannelId,
    Incarnation,
    JobUid,
    Ordinal,
    StageIndex,
    TaskId,
)
from penstock.contract.trust import TOKEN_HEADER, RunSecret, Shown, Trust, signed
from penstock.model.elements import Data
from penstock.model.wire import ChannelHello, LinkHello, decode_reply, encode_hello
from penstock.transport.batches import fingerprint, measure
from penstock.transport.stream import FlightEndpoint, call_options, dial
from penstock.transport.transport_events import StreamBroken
from tests.support.certificates import Renewed, also_believing, authority, trust

Make = Callable[..., Any]
SCHEMA = pa.schema([("word", pa.string())])
HOST = "words.default.job.penstock.dev"
OTHERS_HOST = "others.default.job.penstock.dev"


def channel(start: int, end: int) -> ChannelId:
    def task(stage: int, worker: int) -> TaskId:
        return TaskId(StageIndex(stage), Ordinal(worker), 0)

    return ChannelId(0, task(0, start), task(1, end))


def rows(*values: str) -> Data[pa.RecordBatch]:
    batch = pa.record_batch([list(values)], schema=SCHEMA)
    return Data(batch, len(values), measure(batch))


def pair(make_worker: Make, first: Shown, second: Shown) -> tuple[Any, Any]:
    a = make_worker(0, endpoint=FlightEndpoint(trust=first))
    b = make_worker(1, endpoint=FlightEndpoint(trust=second))
    members = {0: a.peer(), 1: b.peer()}
    for worker in (a, b):
        worker.open(1, members, channel(0, 1))
    return a, b


def test_workers_of_one_job_exchange_rows_over_tls(make_worker: Make) -> None:
    mine = trust(HOST)
    a, b = pair(make_worker, mine, mine)
    assert a.exchange.location.startswith("grpc+tls://127.0.0.1:")
    words = rows("a", "b")
    a.send(1, words)
    _, element = b.take()
    assert element.payload.equals(words.payload)


def words(worker: Any) -> list[str]:
    _, element = worker.take()
    found: list[str] = element.payload.column(0).to_pylist()
    return found


def test_workers_go_on_through_a_rotation_and_joiners_of_the_new_authority_connect(
    make_worker: Make,
) -> None:
    old, new = authority("old"), authority("new")
    before, after = also_believing(trust(HOST, old), new), also_believing(trust(HOST, new), old)
    held = [Renewed(before), Renewed(before)]
    a, b = (make_worker(n, endpoint=FlightEndpoint(trust=held[n])) for n in (0, 1))
    members = {0: a.peer(), 1: b.peer()}
    for worker in (a, b):
        worker.open(1, members, channel(0, 1))
    a.send(1, rows("before"))
    assert words(b) == ["before"]

    # One after the other, as kubelets bring them; rows flow on the streams that are open.
    for worker, source in ((a, held[0]), (b, held[1])):
        source.now = after
        worker.exchange.renew()
        a.send(1, rows("between"))
        assert words(b) == ["between"]

    # A joiner that knows the new authority alone is dialled, and dials.
    c = make_worker(2, endpoint=FlightEndpoint(trust=trust(HOST, new)))
    members[2] = c.peer()
    joined = channel(0, 2), channel(2, 1)
    for worker in (a, b):
        worker.exchange.extend(worker.wiring(members, *joined))
    c.open(1, members, *joined)
    a.send(2, rows("to the joiner"))
    assert words(c) == ["to the joiner"]
    c.send(1, rows("from the joiner"))
    assert words(b) == ["from the joiner"]
    a.send(1, rows("after"))
    assert words(b) == ["after"]
    assert [worker.events for worker in (a, b, c)] == [[], [], []]


def test_a_link_that_is_open_dials_further_streams_with_the_certificates_of_now(
    make_worker: Make,
) -> None:
    old, new = authority("old"), authority("new")
    source = Renewed(trust(HOST, old))
    a = make_worker(0, endpoint=FlightEndpoint(trust=source))
    b_source = Renewed(trust(HOST, old))
    b = make_worker(1, endpoint=FlightEndpoint(trust=b_source))
    members = {0: a.peer(), 1: b.peer()}
    for worker in (a, b):
        worker.open(1, members, channel(0, 1))
    a.send(1, rows("before"))
    assert words(b) == ["before"]
    for held in (source, b_source):  # two rotations later: no earlier authority is trusted
        held.now = trust(HOST, new)
    for worker in (a, b):
        worker.exchange.renew()
    further = ChannelId(1, *(TaskId(StageIndex(s), Ordinal(w), 0) for s, w in ((0, 0), (1, 1))))
    for worker in (a, b):
        wiring = worker.wiring(members, further)
        worker.exchange.extend(replace(wiring, schemas={1: worker.schema}))
    output = a.exchange.output(further)
    assert output.try_send(rows("on a further stream"))
    assert words(b) == ["on a further stream"]


STRANGERS = {
    "of another authority": lambda: trust(HOST, authority("others"), checked_by=authority()),
    "of another job of the same authority": lambda: trust(OTHERS_HOST),
    "expired": lambda: trust(HOST, expired=True),
    "with another secret": lambda: trust(HOST, secret=b"x" * 32),
}


@pytest.mark.parametrize("who", STRANGERS)
def test_a_worker_that_is_not_of_the_job_gets_no_stream(make_worker: Make, who: str) -> None:
    # Each side checks the other, so the stranger fails as a caller and as the one who is called.
    a, b = pair(make_worker, STRANGERS[who](), trust(HOST))
    assert a.event(StreamBroken).peer == 1
    c, d = pair(make_worker, trust(HOST), STRANGERS[who]())
    assert c.event(StreamBroken).peer == 1
    assert b.exchange.stats().handlers == 0
    assert d.exchange.stats().handlers == 0


def test_a_caller_without_a_certificate_is_refused_in_the_tls_handshake(make_worker: Make) -> None:
    worker = make_worker(0, endpoint=FlightEndpoint(trust=trust(HOST)))
    port = int(worker.exchange.location.rpartition(":")[2])
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    anybody.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("127.0.0.1", port), 10) as plain,
        anybody.wrap_socket(plain) as wrapped,
    ):
        assert first_word(wrapped) == b"", "a server that accepts it sends a greeting at once"


def first_word(wrapped: ssl.SSLSocket) -> bytes:
    """With TLS 1.3 the refusal arrives after the client believes that it is connected."""
    try:
        return wrapped.recv(1)
    except (ssl.SSLError, ConnectionResetError):
        return b""


def test_a_caller_without_tls_is_refused(make_worker: Make) -> None:
    worker = make_worker(0, endpoint=FlightEndpoint(trust=trust(HOST)))
    plain = worker.exchange.location.replace("grpc+tls", "grpc")
    client = fl.FlightClient(plain)
    with pytest.raises(fl.FlightUnavailableError):
        list(client.list_actions(fl.FlightCallOptions(timeout=10)))


# --- A caller with the job's certificate, but not with its words ----------------------------------


def hello(attempt: int = 1, life: str = "life-0", to: int = 1) -> ChannelHello | LinkHello:
    who = (JobUid("job"), Attempt(attempt), Incarnation(life))
    return LinkHello(*who, Ordinal(0), Ordinal(to))


def ask(worker: Any, mine: Trust, said: bytes, options: Any) -> Any:
    client = dial(worker.exchange.location, mine)
    writer, reader = client.do_exchange(fl.FlightDescriptor.for_command(said), options)
    try:
        return reader.read_chunk()
    finally:
        reader.cancel()
        with pytest.raises((fl.FlightError, pa.ArrowException)):
            writer.close()


def open_worker(make_worker: Make, mine: Trust) -> Any:
    worker = make_worker(1, endpoint=FlightEndpoint(trust=mine), job=JobUid("job"))
    worker.open(1, {0: worker.peer(), 1: worker.peer()}, channel(0, 1))
    return worker


def test_a_call_without_a_token_is_refused(make_worker: Make) -> None:
    mine = trust(HOST)
    worker = open_worker(make_worker, mine)
    with pytest.raises(fl.FlightUnauthenticatedError, match="without a worker's token"):
        ask(worker, mine, encode_hello(hello()), fl.FlightCallOptions())


@pytest.mark.parametrize(
    "signed",
    [hello(attempt=2), hello(life="life-7"), hello(to=2)],
    ids=["attempt", "incarnation", "receiver"],
)
def test_a_token_is_valid_only_for_its_own_handshake(make_worker: Make, signed: LinkHello) -> None:
    mine = trust(HOST)
    worker = open_worker(make_worker, mine)
    token = mine.token(encode_hello(signed)).encode()
    options = fl.FlightCallOptions(headers=[(TOKEN_HEADER.encode(), token)])
    with pytest.raises(fl.FlightUnauthenticatedError, match="does not sign this handshake"):
        ask(worker, mine, encode_hello(hello()), options)


def test_a_token_of_an_older_attempt_is_refused(make_worker: Make) -> None:
    mine = trust(HOST)
    worker = open_worker(make_worker, mine)
    worker.open(3, {0: worker.peer(), 1: worker.peer()}, channel(0, 1))
    said = encode_hello(hello(attempt=1))
    reply = decode_reply(ask(worker, mine, said, call_options(mine, said)).app_metadata.to_pybytes())
    assert "attempt 1 is over" in reply.reason


def test_a_token_is_valid_only_for_its_schema() -> None:
    mine = trust(HOST)
    one = ChannelHello(JobUid("job"), Attempt(1), Incarnation("i"), channel(0, 1), fingerprint(SCHEMA))
    other = pa.schema([("word", pa.int64())])
    two = ChannelHello(JobUid("job"), Attempt(1), Incarnation("i"), channel(0, 1), fingerprint(other))
    assert not mine.verifies(mine.token(encode_hello(one)), encode_hello(two))


# --- One machine: no certificates, a secret of the run ------------------------------------------


def test_workers_of_one_run_exchange_rows(make_worker: Make) -> None:
    a, b = pair(make_worker, RunSecret(b"run"), RunSecret(b"run"))
    assert a.exchange.location.startswith("grpc://127.0.0.1:")
    a.send(1, rows("of one run"))
    assert words(b) == ["of one run"]


def test_workers_of_another_run_get_no_stream(make_worker: Make) -> None:
    a, b = pair(make_worker, RunSecret(b"another"), RunSecret(b"run"))
    assert "without a worker's token" in a.event(StreamBroken).reason
    assert b.exchange.stats().handlers == 0


@pytest.mark.parametrize("token", [None, "", "x" * 128, signed(b"another")])
def test_no_data_of_another_user_of_the_machine_is_read(make_worker: Make, token: str | None) -> None:
    """Flight reads a first message of any size into memory before it looks at its head."""
    worker = make_worker(0, endpoint=FlightEndpoint(trust=RunSecret(b"run")))
    shown = () if token is None else ((TOKEN_HEADER, token),)
    with grpc.insecure_channel(worker.exchange.location.removeprefix("grpc://")) as channel:
        exchange: Any = channel.stream_stream("/arrow.flight.protocol.FlightService/DoExchange")
        call = exchange(iter([b"no message of Flight"]), metadata=shown, timeout=60)
        with pytest.raises(grpc.RpcError) as refused:
            list(call)
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert "without a worker's token" in str(refused.value.details())
