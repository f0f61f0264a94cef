"""The operator's Lease survives one connection on which nothing arrives any more."""

import asyncio
import json
import re
import ssl
from contextlib import suppress
from typing import Any

from penstock_operator.cluster.client import TIMEOUT_S, Access, Client
from penstock_operator.cluster.lease import CALL_S, DURATION_S, RENEW_S, RETRY_S, OperatorLease

DEADLINE_S = 0.2  # of a call in these tests


class OneDeafConnection:
    """A server that answers every request about the Lease but on its first connection."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] = {"metadata": {"name": "penstock-operator", "resourceVersion": "1"}, "spec": {}}
        self.connections = 0
        self._deaf = True

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        deaf, self._deaf = self._deaf, False
        with suppress(asyncio.IncompleteReadError):  # the client has closed
            while head := await reader.readuntil(b"\r\n\r\n"):
                if deaf:
                    await reader.read()
                    break
                sizes = re.findall(rb"(?i)content-length: (\d+)", head)
                body = await reader.readexactly(int(sizes[0]) if sizes else 0)
                self.lease = json.loads(body) if body else self.lease
                answer = json.dumps(self.lease).encode()
                lines = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(answer)}\r\n\r\n"
                writer.write(lines.encode() + answer)
                await writer.drain()
        writer.close()


def test_one_deaf_connection_costs_one_attempt() -> None:
    async def renew() -> None:
        api = OneDeafConnection()
        async with await asyncio.start_server(api.serve, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            client = Client(Access(url, ssl.create_default_context(), None), lambda *_: None, DEADLINE_S)
            lease = OperatorLease(client, "ns", "penstock-operator", "me")
            assert not await lease.attempt()
            assert await lease.attempt()
            assert api.connections == 2
            assert api.lease["spec"]["holderIdentity"] == "me"
            await client.close()

    asyncio.run(renew())


def test_two_attempts_that_wait_for_answers_fit_before_the_renewal_is_due() -> None:
    assert 2 * (RETRY_S + CALL_S) < RENEW_S < DURATION_S
    assert CALL_S < TIMEOUT_S
