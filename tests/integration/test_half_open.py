"""A control connection on which nothing arrives any more, and nobody says so: another one is dialled."""

from pathlib import Path

from penstock.cluster.rpc import Client, Method, Server
from penstock.contract.codec import Message
from tests.support.retries import answered
from tests.support.tcp_proxy import TcpProxy


class Text(Message, tag="Text"):
    text: str


ECHO = Method("echo", Text, Text)


def test_a_half_open_connection_is_given_up_for_another_one(tmp_path: Path) -> None:
    proxy = TcpProxy(tmp_path / "proxy")
    server = Server({ECHO: lambda text: text}, "secret")
    client = Client(f"127.0.0.1:{proxy.front(int(server.address.rpartition(':')[2]))}", "secret")
    assert answered(lambda: client.call(ECHO, Text("before"), timeout_s=1.0)) == Text("before")
    assert proxy.hold(lambda _: True) == 1
    assert answered(lambda: client.call(ECHO, Text("after"), timeout_s=1.0)) == Text("after")
    client.close()
    server.close()
    proxy.close()
