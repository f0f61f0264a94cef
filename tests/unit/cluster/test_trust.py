"""The control plane between pods: only workers of one job are heard, over real sockets."""

from collections.abc import Callable, Iterator

import pytest

from penstock.base.errors import PeerError
from penstock.cluster.rpc import Client, ListenAddress, Method, Nothing, Server, Unreachable
from penstock.contract.trust import Trust
from tests.support.certificates import Renewed, also_believing, authority, trust
from tests.support.retries import answered

PING = Method("ping", Nothing, Nothing)
HOST = "words.default.job.penstock.dev"


@pytest.fixture
def mine() -> Trust:
    return trust(HOST)


@pytest.fixture
def server(mine: Trust) -> Iterator[Server]:
    made = Server({PING: lambda _: Nothing()}, mine.token(b"uid"), ListenAddress(trust=mine))
    yield made
    made.close()


def ping(server: Server, token: str, shown: Trust | None) -> Nothing:
    client = Client(server.address, token, shown)
    try:
        return client.call(PING, Nothing(), timeout_s=2.0)
    finally:
        client.close()


def test_a_worker_of_the_job_is_heard(server: Server, mine: Trust) -> None:
    assert answered(lambda: ping(server, mine.token(b"uid"), mine)) == Nothing()


STRANGERS: dict[str, Callable[[], Trust | None]] = {
    "without a certificate": lambda: None,
    "of another authority": lambda: trust(HOST, authority("others"), checked_by=authority()),
    "that expects another job": lambda: trust("others.default.job.penstock.dev"),
    "expired": lambda: trust(HOST, expired=True),
}


@pytest.mark.parametrize("who", STRANGERS)
def test_a_stranger_does_not_get_through(server: Server, mine: Trust, who: str) -> None:
    with pytest.raises(Unreachable):
        ping(server, mine.token(b"uid"), STRANGERS[who]())


def test_a_worker_of_the_jobs_former_life_is_refused(server: Server, mine: Trust) -> None:
    with pytest.raises(PeerError, match="another run's server"):
        answered(lambda: ping(server, mine.token(b"another uid"), mine))


def test_a_server_and_a_client_show_the_certificates_of_now(mine: Trust) -> None:
    old, new = authority("old"), authority("new")
    before, after = also_believing(trust(HOST, old), new), also_believing(trust(HOST, new), old)
    served, shown = Renewed(before), Renewed(before)
    token = mine.token(b"uid")
    server = Server({PING: lambda _: Nothing()}, token, ListenAddress(trust=served))
    client = Client(server.address, token, shown)

    def call() -> Nothing:
        return client.call(PING, Nothing(), timeout_s=2.0)

    try:
        answered(call)
        served.now = after
        call()  # on the connection of before
        assert answered(lambda: ping(server, token, trust(HOST, new))) == Nothing(), "a joiner"
        shown.now = after
        answered(call)
        served.now = trust(HOST, new)  # the old authority is over
        with pytest.raises(Unreachable):
            ping(server, token, before)
        assert answered(lambda: ping(server, token, trust(HOST, new))) == Nothing()
        call()
    finally:
        client.close()
        server.close()
