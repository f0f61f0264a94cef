"""A renewal of a Lease is known by its bytes; whatever else has changed is read as a whole."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock_operator.api import kinds
from penstock_operator.api.names import LABEL_PERIODIC
from penstock_operator.cluster.store import JobKey, Store
from penstock_operator.handlers import renewals
from penstock_operator.handlers.backoff import Backoffs
from penstock_operator.handlers.record_watch import RecordWatch
from penstock_operator.handlers.renewals import Renewal, Renewals
from penstock_operator.handlers.work_queue import WorkQueue

KEY = JobKey("ns", "wc")
SPOT = ("ns", ("Lease", "wc-leader"))


def event(version: int, what: str = "MODIFIED", uid: str = "u", **metadata: Any) -> bytes:
    """Write an event of a Lease as the API server does; each one has its own spec and managers."""
    managers = [{"manager": "keeper", "time": f"10:00:{version:02}", "fieldsV1": {"f:spec": {}}}]
    written = {
        "name": "wc-leader",
        "namespace": "ns",
        "uid": uid,
        "resourceVersion": str(version),
        "labels": {"penstock.dev/job": "wc"},
        **metadata,
        "managedFields": managers,
    }
    lease = {
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata": written,
        "spec": {"holderIdentity": "wc-worker-0", "renewTime": f"10:00:{version:02}"},
    }
    return json.dumps({"type": what, "object": lease}, separators=(",", ":")).encode()


def test_only_what_is_as_it_was_is_a_renewal() -> None:
    known = Renewals()
    assert known.renewal(event(1)) is None, "it was not seen before"
    assert known.renewal(event(2)) == Renewal("ns", "wc-leader", "u", "2")
    changes: list[dict[str, Any]] = [
        {"deletionTimestamp": "now"},
        {"labels": {"penstock.dev/job": "other"}},
        {"ownerReferences": [{"uid": "somebody"}]},
        {"finalizers": ["x"]},
        {"annotations": {"a": ',"managedFields":['}},
    ]
    for change in changes:
        assert known.renewal(event(3, **change)) is None, change
        assert known.renewal(event(4, **change)) is not None, change
    assert known.renewal(event(5, "DELETED", **changes[-1])) is None
    assert known.renewal(event(6, uid="another", **changes[-1])) is None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        event(2)[:-300],
        event(2).replace(b'"Lease"', b'"ConfigMap"'),
        event(2).replace(b'"managedFields"', b'"others"'),
        event(2).replace(b'"resourceVersion":"2"', b'"resourceVersion":2'),
        event(2).replace(b":", b": "),
    ],
)
def test_a_text_of_another_form_is_read_as_a_whole(line: bytes) -> None:
    known = Renewals()
    assert [known.renewal(line) for _ in range(3)] == [None] * 3


def test_what_is_remembered_has_a_bound() -> None:
    known = Renewals()
    for number in range(renewals.KEPT + 2):
        known.renewal(event(1, uid=str(number)))
    assert len(known.pieces) == 2


class Told:
    """Stands for a client: lists nothing but ``listed``, and shows ``batches`` of events."""

    def __init__(self, listed: list[dict[str, Any]], *batches: list[bytes]) -> None:
        self.listed = listed
        self.batches = list(batches)
        self.asked: list[str] = []
        self.done = asyncio.Event()

    async def list_all(self, *_: object) -> tuple[list[dict[str, Any]], int]:
        self.asked.append("list")
        return self.listed, 10

    async def watch(self, *query: object) -> AsyncIterator[list[bytes]]:
        self.asked.append(str(query[-1]))
        if not self.batches:
            self.done.set()
            await asyncio.Event().wait()
        yield self.batches.pop(0)


def watched(told: Told, store: Store) -> RecordWatch:
    client: Any = told
    queue = WorkQueue(lambda: 0.0)
    watch = RecordWatch(client, store, queue, Backoffs(lambda: 0.0), kinds.LEASE)

    async def run() -> None:
        running = asyncio.create_task(watch.run())
        await told.done.wait()
        running.cancel()

    asyncio.run(run())
    return watch


def listed(version: int, **metadata: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(event(version, **metadata))["object"]
    return found


def test_a_renewal_queues_nothing_and_is_heard_and_what_is_no_renewal_is_taken_in() -> None:
    store = Store(lambda: 0.0)
    renewed = watched(Told([listed(10)], [event(11), event(12)], [event(13)]), store)
    assert renewed.client.asked == ["list", "10", "12", "13"]  # type: ignore[attr-defined]
    assert store.spots[SPOT].version == 13
    store.keep(listed(14))  # a write of ours
    told = Told([listed(10)], [event(13), event(14), event(15)])
    watch = watched(told, store)
    assert not store.awaited, "the watch has shown it"
    assert not watch.queue.due
    marked: dict[str, Any] = {"labels": {"penstock.dev/job": "wc", LABEL_PERIODIC: "u"}}
    watch = watched(Told([listed(15)], [event(16), event(17, **marked)]), store)
    assert watch.queue.due.keys() == {KEY}
    assert LABEL_PERIODIC in json.dumps(store.objects(KEY)[SPOT[1]])


def test_an_unknown_lease_is_taken_in_although_it_was_seen() -> None:
    store = Store(lambda: 0.0)
    lines = [event(11), event(12, "DELETED"), event(13)]
    watched(Told([listed(10)], lines), store)
    assert store.spots[SPOT].version == 13


def test_after_a_list_each_lease_is_read_as_a_whole_once_more() -> None:
    marked: dict[str, Any] = {"labels": {"penstock.dev/job": "wc", "x": "y"}}
    gone = b'{"type":"ERROR","object":{"code":410,"reason":"Expired"}}'
    store = Store(lambda: 0.0)
    told = Told([listed(10)], [event(11)], [gone], [event(31)])
    store.put(listed(20, **marked))  # what the list after the gap shows
    watched(told, store)
    assert told.asked.count("list") == 2
    assert "x" not in json.dumps(store.objects(KEY)[SPOT[1]]["metadata"]["labels"])  # type: ignore[index,call-overload]
