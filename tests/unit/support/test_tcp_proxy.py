"""The proxy of the tests ends connections in whatever state they are."""

import socket
from pathlib import Path

from tests.support.tcp_proxy import RESET, TcpProxy


def test_a_connection_with_one_side_closed_is_ended_with_the_proxy(tmp_path: Path) -> None:
    proxy = TcpProxy(tmp_path / "proxy")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        front = proxy.front(listening.getsockname()[1])
        client = socket.create_connection(("127.0.0.1", front), timeout=30.0)
        server, _ = listening.accept()
    with server:
        server.settimeout(30.0)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        client.close()
        assert server.recv(1) == b""  # the proxy has seen the reset
        proxy.close()
