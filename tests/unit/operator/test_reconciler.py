"""What a job at rest costs: no call for a checkpoint, a rare write, and no two jobs in step."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable

from penstock.kubernetes.answers import ApiError
from penstock_operator.api.plain import Object, object_at, text_at, whole_at
from penstock_operator.app.health import OLDEST_S
from penstock_operator.cluster.observe import Observer
from penstock_operator.cluster.perform import ActionRunner, Events
from penstock_operator.cluster.store import ForeignObjects, Store
from penstock_operator.handlers.reconciler import (
    JITTER,
    LOG,
    REFRESH_S,
    REFRESHES_PER_S,
    SHOW_INTERVAL_MAX_S,
    SHOW_INTERVAL_S,
    SHOWS_PER_S,
    Reconciler,
)
from penstock_operator.handlers.work_queue import WorkQueue
from penstock_operator.reconcile.decide import REST_S
from tests.unit.operator.api_fake import CORE, JOB_PATH, KEY, FakeApi
from tests.unit.operator.observing import NOW_S, spec_of

INTERVAL_S = 10.0


class Rig:
    """A reconciler of one job, with a clock that only tests move."""

    def __init__(self, chance: float = 0.5) -> None:
        self.now = 1000.0
        self.api = FakeApi()
        self.store = Store(self._clock)
        self.queue = WorkQueue(self._clock)
        foreign = ForeignObjects(self._clock)
        observer = Observer(self.api, self.store, foreign, self._clock, lambda: NOW_S + self.now)
        runner = ActionRunner(self.api, self.store, foreign, Events(self.api))
        self.reconciler = Reconciler(self.store, self.queue, observer, runner, _told, lambda: chance, self._clock)
        metadata: Object = {"name": "wc", "namespace": "apps", "generation": 1}
        job: Object = {"apiVersion": "penstock.dev/v1alpha1", "kind": "StreamJob"}
        self.api.put(JOB_PATH, {**job, "metadata": metadata, "spec": dict(spec_of())})
        spec: Object = {"accessModes": ["ReadWriteMany"]}
        claim: Object = {"kind": "PersistentVolumeClaim", "spec": spec}
        named: Object = {"name": "shared", "namespace": "apps"}
        self.api.put(f"{CORE}/persistentvolumeclaims/shared", {**claim, "metadata": named})

    def _clock(self) -> float:
        return self.now

    async def settle(self) -> None:
        """Bring the job to rest: all objects exist, workers are ready, an epoch is committed."""
        for epoch in (0, 0, 0, 0, 1, 2, 2, 2, 2, 2):
            self.now += 700.0 if epoch < 2 else 2 * INTERVAL_S
            if epoch:
                self.api.play(epoch)
            self.api.show(self.store)
            for _ in range(4):
                await self.reconciler.reconcile(KEY)
        assert text_at(self.api.objects[JOB_PATH], "status", "state") == "Running"
        self.api.asked.clear()
        self.reconciler.shown.clear()  # as after a long rest: the next progress is shown at once

    def add_others(self, count: int) -> None:
        """Put other jobs into the store."""
        for number in range(count):
            metadata: Object = {"namespace": KEY.namespace, "name": f"job-{number}", "uid": f"uid-{number}"}
            self.store.put({"kind": "StreamJob", "metadata": metadata})

    def shown(self) -> int:
        done = object_at(self.api.objects[JOB_PATH], "status", "checkpoint", "lastCompleted")
        return whole_at(done, "epoch")


class _Told(logging.Handler):
    """Keeps which fields the log says to be dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        found = getattr(record, "fields", None)
        self.fields += [] if found is None else [found]


def _told(_outcome: str, _seconds: float) -> None:
    """Count nothing."""


def run(conversation: Callable[[Rig], Awaitable[None]], chance: float = 0.5) -> None:
    rig = Rig(chance)

    async def both() -> None:
        await rig.settle()
        await conversation(rig)

    asyncio.run(both())


def test_checkpoints_of_a_job_at_rest_cost_one_write_now_and_then() -> None:
    async def conversation(rig: Rig) -> None:
        looks, due, checkpoints = 0, rig.now, 30
        begun = rig.now
        for epoch in range(3, 3 + checkpoints):
            rig.now += INTERVAL_S
            rig.api.play(epoch)
            assert rig.api.show(rig.store) == [], "a commit queues nothing"
            if rig.now >= due:
                again = await rig.reconciler.reconcile(KEY)
                assert again is not None
                looks, due = looks + 1, rig.now + again
                assert rig.api.show(rig.store) == [], "our own write queues nothing"
        assert set(rig.api.asked) == {"status streamjobs"}
        passed = rig.now - begun
        assert len(rig.api.asked) <= looks <= passed / SHOW_INTERVAL_S + 1
        assert len(rig.api.asked) < checkpoints / 2
        assert rig.shown() >= 3 + checkpoints - 1 - 2 * REST_S / INTERVAL_S

    run(conversation)


def test_what_is_only_shown_is_written_once_an_interval_however_often_it_is_looked_at() -> None:
    async def conversation(rig: Rig) -> None:
        for epoch in range(3, 13):
            rig.now += 1.0
            rig.api.play(epoch)
            rig.api.show(rig.store)
            await rig.reconciler.reconcile(KEY)
        assert len(rig.api.asked) == 1

    run(conversation)


def test_of_a_fleet_each_job_is_shown_less_often() -> None:
    async def conversation(rig: Rig) -> None:
        rig.add_others(int(2 * SHOW_INTERVAL_S * SHOWS_PER_S) - 1)
        for epoch in range(3, 12):
            rig.now += SHOW_INTERVAL_S / 2
            rig.api.play(epoch)
            rig.api.show(rig.store)
            await rig.reconciler.reconcile(KEY)
        assert rig.api.asked.count("status streamjobs") == 3
        assert rig.shown() == 11

    run(conversation)


def test_of_a_fleet_each_job_is_looked_at_once_for_each_write() -> None:
    async def conversation(rig: Rig) -> None:
        rig.add_others(int(2 * SHOW_INTERVAL_S * SHOWS_PER_S) - 1)
        rig.reconciler.refresh_at[KEY] = math.inf
        looks, due = 0, rig.now
        for epoch in range(3, 123):
            rig.now += INTERVAL_S
            rig.api.play(epoch)
            rig.api.show(rig.store)
            if rig.now >= due:
                again = await rig.reconciler.reconcile(KEY)
                assert again is not None
                looks, due = looks + 1, rig.now + again
        assert rig.api.asked == looks * ["status streamjobs"]
        assert looks <= 120 * INTERVAL_S / (2 * SHOW_INTERVAL_S) + 1

    run(conversation)


def test_of_a_very_large_fleet_no_job_waits_longer_for_a_look_than_its_health_allows() -> None:
    assert SHOW_INTERVAL_MAX_S * (1 + JITTER) < OLDEST_S


def test_a_status_that_was_written_for_another_reason_shows_the_progress_too() -> None:
    async def conversation(rig: Rig) -> None:
        async def after(seconds: float, epoch: int) -> list[str]:
            rig.now += seconds
            rig.api.play(epoch)
            rig.api.show(rig.store)
            rig.api.asked.clear()
            await rig.reconciler.reconcile(KEY)
            return [asked for asked in rig.api.asked if asked == "status streamjobs"]

        rig.add_others(int(2 * SHOW_INTERVAL_S * SHOWS_PER_S) - 1)
        refresh_s = rig.reconciler.refresh_at[KEY] - rig.now
        assert len(await after(refresh_s, 3)) == 1
        assert await after(1.5 * SHOW_INTERVAL_S, 4) == []
        assert len(await after(0.5 * SHOW_INTERVAL_S, 5)) == 1
        assert rig.shown() == 5

    run(conversation)


def test_everything_is_applied_anew_at_times_that_chance_draws_apart() -> None:
    async def waits(rig: Rig) -> None:
        rig.now = rig.reconciler.refresh_at[KEY]
        await rig.reconciler.reconcile(KEY)
        assert rig.api.asked.count("apply networkpolicies") == 1
        rig.api.asked.clear()
        again = await rig.reconciler.reconcile(KEY)
        assert again is not None
        assert rig.api.asked.count("apply networkpolicies") == 0
        found.append((rig.reconciler.refresh_at[KEY] - rig.now, again))

    found: list[tuple[float, float]] = []
    run(waits, 0.0)
    run(waits, 1.0)
    (early, soon), (late, later) = found
    assert (early, late) == (REFRESH_S, REFRESH_S * (1 + JITTER))
    assert soon < later <= REST_S * (1 + JITTER)


def test_of_a_fleet_each_job_is_applied_again_less_often() -> None:
    async def conversation(rig: Rig) -> None:
        rig.add_others(int(3 * REFRESH_S * REFRESHES_PER_S) - 1)
        rig.now = rig.reconciler.refresh_at[KEY]
        await rig.reconciler.reconcile(KEY)
        assert rig.reconciler.refresh_at[KEY] - rig.now == 3 * REFRESH_S

    run(conversation, 0.0)


def test_a_status_of_which_an_older_definition_drops_a_part_is_written_seldom_and_told_once() -> None:
    told = _Told()

    async def conversation(rig: Rig) -> None:
        rig.api.lacks = {"desiredReplicas"}
        job = rig.api.objects[JOB_PATH]
        kept = {n: v for n, v in object_at(job, "status").items() if n not in rig.api.lacks}
        rig.api.put(JOB_PATH, {**job, "status": kept})
        rig.api.show(rig.store)
        for _ in range(5):
            again = await rig.reconciler.reconcile(KEY)
            assert again is not None
            assert again >= REST_S / 2, "nothing has changed, so the job rests"
        assert told.fields == ["status.desiredReplicas"]

    LOG.addHandler(told)
    run(conversation)
    LOG.removeHandler(told)


def test_a_server_that_asks_to_wait_is_left_alone_by_all() -> None:
    async def conversation(rig: Rig) -> None:
        rig.api.play(3)
        spec = object_at(rig.api.objects[JOB_PATH], "spec")
        changed = {**rig.api.objects[JOB_PATH], "spec": {**spec, "replicas": 3}}
        rig.api.put(JOB_PATH, changed)
        assert rig.api.show(rig.store) == [KEY]
        rig.api.refusal = ApiError(429, "TooManyRequests", "busy", 7.0)
        rig.queue.add(KEY)
        working = asyncio.create_task(rig.reconciler.work())
        for _ in range(100):
            await asyncio.sleep(0)
        assert rig.queue.paused_until == rig.now + 7.0
        assert rig.queue.due[KEY] >= rig.now + 7.0
        working.cancel()

    run(conversation)


def test_a_job_that_is_refused_again_and_again_is_no_sign_of_a_stuck_process() -> None:
    async def conversation(rig: Rig) -> None:
        assert rig.reconciler.oldest_age_s() == 0
        rig.api.refusal = ApiError(403, "Forbidden", "admission webhook denied the request")
        for _ in range(4):
            rig.now += OLDEST_S / 2
            rig.queue.add(KEY)
            working = asyncio.create_task(rig.reconciler.work())
            for _ in range(100):
                await asyncio.sleep(0)
            working.cancel()
        assert rig.queue.failures[KEY] == 4
        assert rig.reconciler.oldest_age_s() == 0

    run(conversation)
