"""Rows wait for an HTTP server, and leave exactly once with their answers: through kills, and a rescale 2 -> 3 -> 2.

The server dies and comes back, closes connections without an answer, hangs, answers when the caller has given up, and
answers twice.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration.test_typed_process import written
from tests.integration.through_kills import run_module_through_kills

FILES, ROWS, KEYS = 4, 600, 30
MODULE = """
import asyncio

import penstock as ps


@ps.record
class Asked:
    mote: int
    number: int


@ps.record
class Place:
    city: str


async def fetch(r: Asked) -> Place:
    reader, writer = await asyncio.open_connection("127.0.0.1", {port})
    try:
        writer.write(f"GET /{{r.mote}}/{{r.number}} HTTP/1.1\\r\\nHost: places\\r\\n\\r\\n".encode())
        head = await reader.readuntil(b"\\r\\n\\r\\n")
        length = int(head.lower().split(b"content-length:")[1].split()[0])
        body = (await reader.readexactly(length)).decode()
    finally:
        writer.close()
    if b" 404 " in head.splitlines()[0]:
        raise LookupError(body)
    return Place(body)
"""
JOB = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: places}
spec:
  replicas: 2
  checkpoint: {interval: 2s}
  job:
    parameters: {folder: .}
    graph:
      steps:
        - name: readings
          source:
            parquet: {path: "${folder}/in", rate: 150}
            eventTime: {column: at}
        - name: places
          keyBy: [mote]
          enrich:
            function: "http_places:fetch"
            capacity: 20
            timeout: 500ms
            retries: {most: 40, wait: 5ms, factor: 1, errors: ["builtins:OSError", "builtins:EOFError"]}
            onError: dead-letter
        - {name: output, sink: {parquet: {path: "${folder}/out"}}}
        - {name: unknown, inputs: [places.dead-letter], sink: {parquet: {path: "${folder}/unknown"}}}
        - name: counts
          inputs: [places]
          keyBy: [mote]
          window: {size: 50ms, compute: [{name: rows, function: count}]}
        - {name: counted, sink: {parquet: {path: "${folder}/counted"}}}
        - {name: late, inputs: [counts.late], sink: {parquet: {path: "${folder}/late"}}}
"""


class Places:
    """The server. What it does with the first request for a number depends on the number."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[int, int]] = Counter()
        self.did: Counter[str] = Counter()
        self.port = 0
        self._open: set[asyncio.StreamWriter] = set()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)

    async def serve(self, ready: Event) -> None:
        self._loop, over = asyncio.get_running_loop(), asyncio.Event()
        self._over = over
        while not over.is_set():
            self._dies = asyncio.Event()
            server = await asyncio.start_server(self._answer, "127.0.0.1", self.port, reuse_address=True)
            self.port = server.sockets[0].getsockname()[1]
            ready.set()
            ended = [asyncio.ensure_future(over.wait()), asyncio.ensure_future(self._dies.wait())]
            await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
            for each in ended:
                each.cancel()
            for listening in server.sockets:
                self._loop.remove_reader(listening)
            await asyncio.sleep(0)  # a server that closes before it knows a connection that was taken leaves it open
            server.close()
            for writer in tuple(self._open):
                writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            mote, number = (int(part) for part in (await reader.readline()).split()[1].decode().split("/")[1:])
            self.asked[mote, number] += 1
            if self.asked.total() in (200, 900, 1700):
                self.did["died"] += 1
                self._dies.set()
                return
            await self._one(reader, writer, (mote, number))
        except (OSError, IndexError):
            self.did["was left"] += 1
        finally:
            self._open.discard(writer)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, of: tuple[int, int]) -> None:
        mote, number = of
        first = self.asked[of] == 1
        kind = {3: "closed", 17: "hung", 31: "late", 44: "twice"}.get(number % 60) if first else None
        self.did[kind or "answered"] += 1
        if kind == "closed":
            return
        if kind in ("hung", "late"):
            while await reader.read(4096):
                pass  # until the caller has given up
        if kind == "hung":
            return
        code, body = ("404 Not Found", f"no {number}") if number % 50 == 7 else ("200 OK", f"city {mote}/{number}")
        text = f"HTTP/1.1 {code}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        writer.write(text * 2 if kind == "twice" else text)
        await writer.drain()


@contextmanager
def serving() -> Iterator[Places]:
    places, ready = Places(), Event()
    thread = Thread(target=lambda: asyncio.run(places.serve(ready)))
    thread.start()
    try:
        assert ready.wait(60)
        yield places
    finally:
        places.stop()
        thread.join(60)


def write_input(folder: Path) -> list[dict[str, Any]]:
    """Write files, of which each has motes of its own."""
    chosen, rows = random.Random(3), []
    folder.mkdir()
    schema = pa.schema({"number": pa.int64(), "mote": pa.int64(), "at": pa.timestamp("us")})
    for file in range(FILES):
        own = [
            {"number": number, "mote": file * KEYS + chosen.randrange(KEYS), "at": 1000 * number}
            for number in range(ROWS)
        ]
        rows += own
        pq.write_table(pa.Table.from_pylist(own, schema), folder / f"part-{file}.parquet")
    return rows


def test_answers_of_a_bad_server_are_exact_through_kills_and_rescales(tmp_path: Path) -> None:
    rows = write_input(tmp_path / "in")
    with serving() as places:
        run_module_through_kills(tmp_path, "http_places", MODULE.format(port=places.port), JOB)

    known = [row for row in rows if row["number"] % 50 != 7]
    wanted = Counter((r["mote"], r["number"], f"city {r['mote']}/{r['number']}") for r in known)
    assert written(tmp_path / "out", "mote", "number", "city") == wanted
    unknown = Counter((r["mote"], r["number"], f"LookupError: no {r['number']}") for r in rows if r not in known)
    assert written(tmp_path / "unknown", "mote", "number", "error") == unknown
    windows = Counter((row["mote"], row["at"] // 50_000 * 50_000) for row in known)
    counted = Counter((mote, start, n) for (mote, start), n in windows.items())
    assert written(tmp_path / "counted", "mote", "window_start", "rows") == counted
    assert not list((tmp_path / "late").glob("*.parquet")), "no row that waited is late"
    assert {"died", "closed", "hung", "late", "twice"} <= set(places.did)
    assert places.asked.total() > len(rows), "some rows were asked for again"
