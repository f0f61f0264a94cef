"""Between two batches of a watch, the kernel keeps what arrives: the process does not wake up for each event."""

import asyncio
import selectors
import socket
import ssl
import threading
from pathlib import Path

from penstock_operator.api import kinds
from penstock_operator.cluster.client import Access, Client
from tests.support.certificates import trust

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
LINES = [b'{"number":%d}' % number for number in range(4)]
LOOP_TURNS = 5  # the callbacks of one arrival need fewer


class Watched:
    """A server of one watch, in a thread. It sends the next line when it is told to."""

    def __init__(self, folder: Path) -> None:
        shown = trust()
        (folder / "certificate").write_bytes(shown.certificate)
        (folder / "key").write_bytes(shown.key)
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(folder / "certificate", folder / "key")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._next = threading.Semaphore(0)
        self._sent = asyncio.Queue[bytes]()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        tls = ssl.create_default_context(cadata=shown.ca.decode())
        tls.check_hostname = False
        self.access = Access(f"https://127.0.0.1:{self._listener.getsockname()[1]}", tls, None)

    def _serve(self) -> None:
        line, _ = self._listener.accept()
        with self._listener, self._tls.wrap_socket(line, server_side=True) as served:
            asked = b""
            while not asked.endswith(b"\r\n\r\n"):
                asked += served.recv(4096)
            served.sendall(HEAD)
            for text in LINES:
                self._next.acquire()
                served.sendall(b"%x\r\n%s\n\r\n" % (len(text) + 1, text))
                self._loop.call_soon_threadsafe(self._sent.put_nowait, text)
            self._next.acquire()

    async def send(self) -> None:
        """Send a line. When this returns, the line is in the socket of the client."""
        self._next.release()
        await self._sent.get()

    def end(self) -> None:
        """Send what is left, and end."""
        self._next.release(len(LINES) + 1)
        self._thread.join()


def test_nothing_is_read_between_two_batches_of_a_watch(tmp_path: Path) -> None:
    selector = selectors.DefaultSelector()

    def listened() -> set[int]:
        return {key.fd for key in selector.get_map().values()}

    async def watch() -> None:
        alone = listened()
        server = Watched(tmp_path)
        client = Client(server.access, lambda *_: None)
        batches = client.watch(kinds.CONFIG_MAP, "", "", "1")
        try:
            first, _ = await asyncio.gather(anext(batches), server.send())
            assert first == LINES[:1]
            await server.send()  # the first arrival after a batch may be read, but is not given
            for _ in range(LOOP_TURNS):
                await asyncio.sleep(0)
            assert listened() == alone
            await server.send()
            await server.send()
            assert listened() == alone
            given: list[bytes] = []
            while len(given) < 3:
                given += await anext(batches)
            assert given == LINES[1:]
        finally:
            server.end()
            await client.close()

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(watch())
