import threading
from collections.abc import Iterator

import pytest

from penstock.base.errors import ConfigError, PeerError, StateError, StorageError
from penstock.base.limits import CONTROL_MESSAGE_BYTES_MAX
from penstock.cluster.rpc import (
    Client,
    ListenAddress,
    Method,
    Nothing,
    Server,
    Unreachable,
    refuses,
)
from penstock.contract.codec import Message
from penstock.ports import SwapConflict, SwapUnknown
from tests.support.retries import answered


class Text(Message, tag="Text"):
    text: str


class Number(Message, tag="Number"):
    number: int


ECHO = Method("echo", Text, Text)
FAIL = Method("fail", Text, Nothing)
HANG = Method("hang", Text, Nothing)
CRASH = Method("crash", Text, Nothing)
ERRORS = {kind.__name__: kind for kind in (ConfigError, PeerError, StateError, StorageError, SwapConflict, SwapUnknown)}


def fail(request: Text) -> Nothing:
    raise ERRORS[request.text](f"because of {request.text}")


def crash(request: Text) -> Nothing:
    raise RuntimeError(request.text)


@pytest.fixture
def released() -> threading.Event:
    return threading.Event()


@pytest.fixture
def server(released: threading.Event) -> Iterator[Server]:
    def hang(_request: Text) -> Nothing:
        released.wait(30)
        return Nothing()

    server = Server({ECHO: lambda text: text, FAIL: fail, HANG: hang, CRASH: crash}, "secret")
    yield server
    released.set()
    server.close()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    client = Client(server.address, "secret")
    answered(lambda: client.call(ECHO, Text("connected")))
    yield client
    client.close()


def test_a_call_and_its_reply(client: Client) -> None:
    assert client.call(ECHO, Text("grüße\n\0")) == Text("grüße\n\0")


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_errors_keep_their_class_and_words(client: Client, name: str) -> None:
    with pytest.raises(ERRORS[name], match=f"^because of {name}$"):
        client.call(FAIL, Text(name))


def test_a_handler_that_fails_unexpectedly_has_given_no_answer(client: Client) -> None:
    with pytest.raises(Unreachable, match=r"unknown: .*no memory"):
        client.call(CRASH, Text("no memory"))


def test_another_run_is_refused(server: Server) -> None:
    for token in ("", "other", "secret2"):
        client = Client(server.address, token)
        with pytest.raises(PeerError, match="another run"):
            client.call(ECHO, Text("x"))
        client.close()


def test_a_message_of_another_shape_is_refused(client: Client) -> None:
    wrong = Method("echo", Number, Text)
    with pytest.raises(PeerError, match="Text: Invalid value 'Number'"):
        client.call(wrong, Number(1))


def test_an_unknown_method_is_refused(client: Client) -> None:
    with pytest.raises(PeerError, match="another program listens there, or another version"):
        client.call(Method("nothing", Text, Text), Text("x"))


def test_a_deadline_ends_the_call(client: Client, released: threading.Event) -> None:
    with pytest.raises(Unreachable, match="deadline exceeded"):
        client.call(HANG, Text("x"), timeout_s=0.05)
    released.set()
    assert client.call(ECHO, Text("still there")) == Text("still there")


def test_messages_are_bounded(client: Client) -> None:
    with pytest.raises(Unreachable, match="resource exhausted"):
        client.call(ECHO, Text("x" * (CONTROL_MESSAGE_BYTES_MAX + 1)))


def test_a_closed_server_refuses_and_is_unreachable(server: Server, client: Client) -> None:
    assert not refuses(server.address)
    server.close()
    assert refuses(server.address)
    with pytest.raises(Unreachable):
        client.call(ECHO, Text("x"))


def test_no_address_of_this_machine() -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1:0"):
        Server({}, "secret", ListenAddress("192.0.2.1"))
