"""Writes that change nothing: they count as none, so the job rests."""

import asyncio

from penstock.contract.streamsnapshot import SnapshotState, SnapshotStatus
from penstock_operator.api.plain import Object, text_at
from penstock_operator.cluster.perform import ActionRunner, Events
from penstock_operator.cluster.store import ForeignObjects, Store
from penstock_operator.reconcile.actions import Decision, Delete, WriteSnapshotStatus
from tests.unit.operator.api_fake import CORE, FakeApi
from tests.unit.operator.observing import running, spec_of

POD: Object = {"kind": "Pod", "metadata": {"name": "wc-worker-0", "namespace": "apps", "uid": "p0"}}


SNAPSHOTS = "/apis/penstock.dev/v1alpha1/namespaces/apps/streamsnapshots"


def clock() -> float:
    return 0.0


def test_an_object_that_is_gone_without_a_word_of_the_watch_is_deleted_once() -> None:
    api, store, foreign = FakeApi(), Store(clock), ForeignObjects(clock)
    runner = ActionRunner(api, store, foreign, Events(api))
    store.put(POD)
    api.put(f"{CORE}/pods/wc-worker-0", POD)
    decided = Decision((Delete("Pod", "wc-worker-0", "p0", now=True),))
    for done in (["Delete"], []):
        assert asyncio.run(runner.do(running(spec_of()), decided)) == done
    assert store.spots == {}, "the next decision sees none"


def test_a_status_of_a_snapshot_of_which_the_definition_lacks_a_part_counts_as_no_change() -> None:
    api, store, foreign = FakeApi(), Store(clock), ForeignObjects(clock)
    runner, path = ActionRunner(api, store, foreign, Events(api)), SNAPSHOTS + "/monday"
    api.put(path, {"kind": "StreamSnapshot", "metadata": {"name": "monday", "namespace": "apps"}})
    api.lacks = {"jobUid"}
    for job_uid, changes in (("uid-1", True), ("uid-2", False)):
        status = SnapshotStatus(state=SnapshotState.COMPLETED, job_uid=job_uid)
        version = text_at(api.objects[path], "metadata", "resourceVersion")
        decided = Decision((WriteSnapshotStatus("monday", status, version),))
        done = asyncio.run(runner.do(running(spec_of()), decided))
        assert done == (["WriteSnapshotStatus"] if changes else [])
    api.objects.clear()
    assert asyncio.run(runner.do(running(spec_of()), decided)) == []
