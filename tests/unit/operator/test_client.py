"""The operator's client and its watch of records, against a server on this machine."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from penstock.contract.schema import Plain
from penstock.kubernetes.answers import RETRY_AFTER_MAX_S, UNANSWERED, ApiError
from penstock_operator.api import kinds
from penstock_operator.cluster.client import Access, Client
from penstock_operator.cluster.store import JobKey, Store
from penstock_operator.handlers.backoff import KOPF_TRIES, LONGEST_S, Backoffs
from penstock_operator.handlers.record_watch import RecordWatch
from penstock_operator.handlers.work_queue import WorkQueue

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
KEY = JobKey("ns", "wc")
ASKED = 4


def serve(answer: Answer, ask: Callable[[Client], Awaitable[None]]) -> None:
    """Serve every path with ``answer``, and call it with ``ask``."""

    async def both() -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        async with TestServer(app) as server:
            url, tls = str(server.make_url("")).rstrip("/"), ssl.create_default_context()
            client = Client(Access(url, tls, None), lambda *_: None)
            try:
                await ask(client)
            finally:
                await client.close()

    asyncio.run(both())


@pytest.mark.parametrize(
    ("status", "header", "wait"),
    [
        (429, "7", 7.0),
        (503, "3", 3.0),
        (500, "3", 0.0),
        (429, "", 0.0),
        (429, "Wed, 21 Oct 2026 07:28:00 GMT", 0.0),
        (429, "99999", RETRY_AFTER_MAX_S),
        (429, "-1", 0.0),
    ],
)
def test_what_a_server_asks_to_wait_is_heard(status: int, header: str, wait: float) -> None:
    async def busy(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers={"Retry-After": header} if header else {})

    async def ask(client: Client) -> None:
        with pytest.raises(ApiError) as refused:
            await client.get(kinds.LEASE, "ns", "a")
        assert (refused.value.code, refused.value.retry_after_s) == (status, wait)

    serve(busy, ask)


def config_map(number: int, version: int = 1, **data: str) -> dict[str, Plain]:
    metadata: dict[str, Plain] = {
        "name": f"c{number}",
        "namespace": "ns",
        "uid": f"u{number}",
        "resourceVersion": str(version),
        "labels": {"penstock.dev/job": "wc"},
    }
    return {"kind": "ConfigMap", "metadata": metadata, "data": dict(data)}


def test_a_list_is_read_in_pages() -> None:
    asked: list[tuple[str, str]] = []

    async def pages(request: web.Request) -> web.StreamResponse:
        at = request.query.get("continue", "")
        asked.append((request.query["limit"], at))
        first = int(at or 0)
        more = str(first + 500) if first < 1000 else ""
        items: list[Plain] = [config_map(n) for n in range(first, min(first + 500, 1200))]
        return web.json_response({"items": items, "metadata": {"continue": more, "resourceVersion": "77"}})

    async def ask(client: Client) -> None:
        found, version = await client.list_all(kinds.CONFIG_MAP, "", "penstock.dev/job")
        assert (len(found), version) == (1200, 77)

    serve(pages, ask)
    assert asked == [("500", ""), ("500", "500"), ("500", "1000")]


def test_records_are_watched_from_where_the_last_watch_ended_and_listed_anew_when_too_old() -> None:
    asked: list[str] = []
    streams: list[list[Plain]] = [
        [
            {"type": "MODIFIED", "object": config_map(1, 12, a="2")},
            {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "19"}}},
        ],
        [{"type": "DELETED", "object": config_map(1, 20)}],
        [{"type": "ERROR", "object": {"code": 410, "reason": "Expired"}}],
        [{"type": "ADDED", "object": config_map(9, 40)}],
    ]

    async def server(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            asked.append("list")
            items: list[Plain] = [config_map(1, 11), config_map(2, 11)]
            version = "11" if asked.count("list") == 1 else "30"
            return web.json_response({"items": items, "metadata": {"resourceVersion": version}})
        asked.append(request.query["resourceVersion"])
        if not streams:
            done.set()
            await asyncio.Event().wait()
        answer = web.StreamResponse()
        await answer.prepare(request)
        text = "".join(json.dumps(event) + "\n" for event in streams.pop(0))
        await answer.write(text[:40].encode())  # an event may come in two pieces
        await answer.write(text[40:].encode())
        return answer

    done = asyncio.Event()

    async def ask(client: Client) -> None:
        store, queue = Store(lambda: 0.0), WorkQueue(lambda: 0.0)
        watch = RecordWatch(client, store, queue, Backoffs(lambda: 0.0), kinds.CONFIG_MAP)
        running = asyncio.create_task(watch.run())
        await done.wait()
        running.cancel()
        assert watch.listed.is_set()
        assert {name for _, name in store.objects(KEY)} == {"c1", "c2", "c9"}
        assert queue.due.keys() == {KEY}

    serve(server, ask)
    assert asked == ["list", "11", "19", "20", "list", "30", "40"]


class Ending:
    """Stands for a client whose server ends each watch at once, or says that each version is too old."""

    def __init__(self, *lines: bytes) -> None:
        self.lines = [list(lines)] if lines else []
        self.asked = 0
        self.done = asyncio.Event()

    async def list_all(self, *_: object) -> tuple[list[Any], int]:
        return [], 10

    async def watch(self, *_: object) -> AsyncIterator[list[bytes]]:
        self.asked += 1
        if self.asked > ASKED:
            self.done.set()
            await asyncio.Event().wait()
        for batch in self.lines:
            yield batch


@pytest.mark.parametrize("lines", [(), (b'{"type":"ERROR","object":{"code":410,"reason":"Expired"}}',)])
def test_a_server_that_ends_each_watch_at_once_is_asked_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch, lines: tuple[bytes, ...]
) -> None:
    waits, turn = list[float](), asyncio.sleep

    async def noted(seconds: float) -> None:
        waits.append(seconds)
        await turn(0)

    async def watched() -> None:
        told: Any = Ending(*lines)
        watch = RecordWatch(told, Store(lambda: 0.0), WorkQueue(lambda: 0.0), backoffs, kinds.CONFIG_MAP)
        running = asyncio.create_task(watch.run())
        await told.done.wait()
        running.cancel()

    backoffs = Backoffs(lambda: 0.0)
    monkeypatch.setattr(asyncio, "sleep", noted)
    asyncio.run(watched())
    assert waits == [backoffs.after(failures) for failures in range(ASKED - 1)]


def test_waits_grow_to_a_bound_and_differ_by_chance() -> None:
    least, most = Backoffs(lambda: 0.0), Backoffs(lambda: 1.0)
    for failures in range(40):
        assert least.after(failures) == most.after(failures) / 2
    assert most.after(0) < most.after(1) < most.after(40) == LONGEST_S
    assert list(most) == [most.after(failures) for failures in range(KOPF_TRIES)]


def test_a_token_that_the_kubelet_renews_is_read_for_each_request(tmp_path: Path) -> None:
    file = tmp_path / "token"
    access = Access("https://api", ssl.create_default_context(), "of the start", file)
    for token in ("first", "second"):
        file.write_text(f"{token}\n")
        assert access.headers()["Authorization"] == f"Bearer {token}"
    person = Access("https://api", ssl.create_default_context(), "of the start")
    assert person.headers()["Authorization"] == "Bearer of the start"


def test_a_token_that_is_replaced_while_it_is_read_is_a_call_without_an_answer(tmp_path: Path) -> None:
    """Another error would end the operator: its tasks expect refusals and missing answers only."""

    async def ask() -> None:
        access = Access("https://api", ssl.create_default_context(), None, tmp_path / "token")
        client = Client(access, lambda *_: None)
        with pytest.raises(ApiError, match="No such file or directory") as missed:
            await client.get(kinds.LEASE, "ns", "a")
        assert missed.value.code == UNANSWERED
        await client.close()

    asyncio.run(ask())
