"""Events that cannot be posted are kept in order, and are posted when they can be."""

import asyncio

from penstock.kubernetes.answers import ApiError
from penstock_operator.api.kinds import Kind
from penstock_operator.api.plain import Object, object_at, text_at, whole_at
from penstock_operator.cluster.perform import LEFT_MAX, Events, PendingEvent

ABOUT: Object = {"kind": "StreamJob", "name": "wc", "namespace": "apps", "uid": "u"}


class Server:
    """Keeps Events; the next ``silent`` calls get no answer."""

    def __init__(self) -> None:
        self.events: dict[str, Object] = {}
        self.silent = 0
        self.refuses = 0

    def _answer(self) -> None:
        if self.refuses:
            raise ApiError(self.refuses, "Forbidden", "the namespace ends")
        if self.silent:
            self.silent -= 1
            raise ApiError(503, "Unavailable", "not now")

    async def create(self, manifest: Object) -> Object:
        self._answer()
        name = text_at(manifest, "metadata", "name")
        if name in self.events:
            raise ApiError(409, "AlreadyExists", name)
        self.events[name] = manifest
        return manifest

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        del kind, namespace
        self._answer()
        return self.events.get(name)

    async def merge(self, kind: Kind, place: tuple[str, str], change: Object) -> Object:
        del kind
        self._answer()
        old = self.events[place[1]]
        metadata = object_at(old, "metadata")
        self.events[place[1]] = {**old, **change, "metadata": metadata}
        return self.events[place[1]]


def news(number: int) -> PendingEvent:
    return PendingEvent(ABOUT, "Running", f"message {number}", False, 1.0 + number)


def counts(server: Server) -> list[tuple[str, int]]:
    return [(text_at(e, "message"), whole_at(e, "count")) for e in server.events.values()]


def test_the_same_event_counts_up_and_keeps_its_beginning() -> None:
    server = Server()
    events = Events(server)  # type: ignore[arg-type]

    async def tell() -> None:
        for at in (10.0, 20.0, 30.0):
            await events.tell(PendingEvent(ABOUT, "Running", "as before", False, at))

    asyncio.run(tell())
    (made,) = server.events.values()
    assert made["count"] == 3
    assert made["firstTimestamp"] == "1970-01-01T00:00:10Z"
    assert made["lastTimestamp"] == "1970-01-01T00:00:30Z"


def test_none_is_lost_while_the_server_is_silent() -> None:
    server = Server()
    events = Events(server)  # type: ignore[arg-type]

    async def tell() -> None:
        server.silent = 2
        await events.tell(news(1))
        await events.tell(news(2))
        assert server.events == {}
        await events.send()

    asyncio.run(tell())
    assert counts(server) == [("message 1", 1), ("message 2", 1)]
    assert not events.left


def test_what_is_kept_is_bounded_and_what_is_forbidden_is_dropped() -> None:
    server = Server()
    events = Events(server)  # type: ignore[arg-type]

    async def tell() -> None:
        server.silent = 2 * LEFT_MAX
        for number in range(LEFT_MAX + 10):
            await events.tell(news(number))
        assert len(events.left) == LEFT_MAX
        assert events.left[0].message == "message 10"
        server.silent, server.refuses = 0, 403
        await events.send()

    asyncio.run(tell())
    assert not events.left
