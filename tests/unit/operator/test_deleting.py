"""What becomes of an object that is to be deleted, and is gone already."""

import asyncio

from penstock_operator.api.plain import Object
from penstock_operator.cluster.perform import ActionRunner, Events
from penstock_operator.cluster.store import ForeignObjects, Store
from penstock_operator.reconcile.actions import Decision, Delete
from tests.unit.operator.api_fake import CORE, FakeApi
from tests.unit.operator.observing import running, spec_of

POD: Object = {"kind": "Pod", "metadata": {"name": "wc-worker-0", "namespace": "apps", "uid": "p0"}}


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
