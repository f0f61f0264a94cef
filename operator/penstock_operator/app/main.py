"""Starts the operator: the probes, then the Lease, then Kopf, whose startup handler starts the rest.

The process ends when it loses the Lease. When one of our definitions appears or disappears, all
parts are built again in the same process (``handlers.definitions``).
"""

import asyncio
import gc
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import TypeVar

import kopf

from penstock.base.errors import ConfigError
from penstock.base.limits import API_DEPTH_MAX
from penstock_operator.api.kinds import Kind
from penstock_operator.app.health import Ages, Health, Role, problem_of, role_of
from penstock_operator.app.logs import log_as_json
from penstock_operator.app.metrics import Metrics
from penstock_operator.app.settings import Settings, read_settings
from penstock_operator.cluster.client import Client, access_of, login
from penstock_operator.cluster.lease import CALL_S, OperatorLease
from penstock_operator.cluster.listing import Lister
from penstock_operator.cluster.observe import Observer
from penstock_operator.cluster.perform import ActionRunner, Events
from penstock_operator.cluster.store import ForeignObjects, Store
from penstock_operator.handlers.backoff import Backoffs
from penstock_operator.handlers.definitions import Definitions
from penstock_operator.handlers.reconciler import Reconciler
from penstock_operator.handlers.record_watch import ABSENT, KINDS, RecordWatch
from penstock_operator.handlers.registry import Parts, handlers
from penstock_operator.handlers.spark_watches import SparkWatches
from penstock_operator.handlers.work_queue import WorkQueue

LOG = logging.getLogger("penstock_operator")
T = TypeVar("T")
EXIT_CONFIG = 2
EXIT_LEASE = 3
START_AGAIN = -1  # in this process
PAUSE_S = 1.0  # before that, when a kind that was there answers 404
# Kopf copies each object that it watches, with two calls per level. Python calls use no C stack.
# JSON does; 40,000 levels were read and written with the usual 8 MiB (Python 3.11).
RECURSION_MAX = 3 * API_DEPTH_MAX
# Watched objects are read and replaced all the time and contain no cycles. With the default of 700
# new objects, garbage collection would take a sixth of the CPU time of a fleet at rest.
COLLECT_AFTER = 50_000


@dataclass(slots=True)
class Operator:
    """All parts of one process. ``port`` is set when :meth:`run` listens."""

    settings: Settings
    kopf_settings: kopf.OperatorSettings
    client: Client
    metrics: Metrics
    reconciler: Reconciler
    stop: asyncio.Event
    watching: asyncio.Event
    lease: OperatorLease
    port: int = 0
    leads: bool = False
    changed: bool = False
    definitions: Definitions = field(init=False)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Create the watch of definitions."""
        self.definitions = Definitions(self.client)

    async def run(self) -> int:
        """Serve until told to stop. Returns the exit status, or START_AGAIN."""
        health = Health(self._stuck, self._role, self.metrics.page)
        runner, self.port = await health.serve(self.settings.http_port)
        LOG.info("listening", extra={"port": self.port})
        try:
            served = await self._unless_stopped(self.definitions.served())
            if served is None:
                return 0
            if self.settings.leader_election:
                if await self._unless_stopped(self._acquired()) is None:
                    return 0
                LOG.info("leading", extra={"identity": self.settings.identity})
            return await self._lead(served)
        finally:
            if self.settings.leader_election:
                await self.lease.release()
            await runner.cleanup()
            await self.client.close()
            await self.lease.client.close()

    async def _unless_stopped(self, waiting: Coroutine[None, None, T]) -> T | None:
        """Await a result; None when told to stop before it is there."""
        stopped = asyncio.create_task(self._told_to_stop())
        waited = asyncio.create_task(waiting)
        await asyncio.wait({waited, stopped}, return_when=asyncio.FIRST_COMPLETED)
        for task in (waited, stopped):
            task.cancel()
        return waited.result() if waited.done() and not waited.cancelled() else None

    async def _acquired(self) -> bool:
        await self.lease.acquire()
        return True

    async def _lead(self, served: tuple[Kind, ...]) -> int:
        """Run Kopf until it is told to stop, one of our tasks ends, or definitions change."""
        self.leads = True
        self.metrics.leading.set(1)
        reconciler, port = self.reconciler, self.settings.probe_port
        parts = Parts(reconciler.store, reconciler.queue, self._begin, self._end, self._stuck, served)
        more = asyncio.create_task(self._stop_for_more(served))
        try:
            await kopf.operator(
                registry=handlers(parts),
                settings=self.kopf_settings,
                standalone=True,
                clusterwide=not self.settings.namespaces,
                namespaces=self.settings.namespaces,
                liveness_endpoint=f"http://0.0.0.0:{port}/healthz" if port else None,
                stop_flag=self.stop,
                ready_flag=self.watching,
            )
        except Exception as error:
            if getattr(error, "status", 0) == ABSENT:  # a definition that Kopf watches was deleted
                LOG.info("starts again", extra={"reason": "a definition was deleted"})
                self.changed = True
                await asyncio.sleep(PAUSE_S)
            else:
                LOG.exception("Kopf has ended")
                self.ended.append(str(error))
        finally:
            more.cancel()
        if self.ended:
            LOG.error("ended", extra={"reason": "; ".join(self.ended)})
            return EXIT_LEASE
        return START_AGAIN if self.changed else 0

    async def _stop_for_more(self, served: tuple[Kind, ...]) -> None:
        await self.definitions.until_more(served)
        LOG.info("starts again", extra={"reason": "a definition was created"})
        self.changed = True
        self.stop.set()

    async def _begin(self) -> None:
        """Start our own tasks. This is Kopf's startup handler."""
        records = [each for kind in KINDS for each in self._records(kind)]
        store, queue = self.reconciler.store, self.reconciler.queue
        served = self.reconciler.observer.spark
        spark = SparkWatches(self.client, store, queue, served, self._records)
        lister = Lister(self.client, self.reconciler.store, self.settings.namespaces)
        begun: list[Coroutine[None, None, None]] = [each.run() for each in records]
        begun.append(self.reconciler.relist(lister))
        begun.append(spark.run())
        known = [*(each.listed for each in records), spark.settled]
        begun += [self._work(known) for _ in range(self.settings.workers)]
        if self.settings.leader_election:
            begun.append(self.lease.hold())
        self.tasks = [asyncio.create_task(self._guard(task)) for task in begun]

    async def _end(self) -> None:
        """End our own tasks. This is Kopf's cleanup handler."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _guard(self, task: Coroutine[None, None, None]) -> None:
        """Run a task that should never end. If it ends, the operator ends too."""
        try:
            await task
            self.ended.append("the Lease is lost")
        except Exception as error:
            LOG.exception("a task has ended")
            self.ended.append(str(error))
        self.stop.set()

    def _records(self, kind: Kind) -> list[RecordWatch]:
        store, queue = self.reconciler.store, self.reconciler.queue
        backoffs = Backoffs(random.random)
        return [
            RecordWatch(self.client, store, queue, backoffs, kind, namespace)
            for namespace in self.settings.namespaces or ("",)
        ]

    async def _work(self, known: list[asyncio.Event]) -> None:
        """Reconcile when all kinds are listed: an unknown child would be created a second time."""
        await asyncio.gather(*(each.wait() for each in known))
        await self.reconciler.work()

    async def _told_to_stop(self) -> None:
        await self.stop.wait()

    def _stuck(self) -> str:
        reconciler = self.reconciler
        return problem_of(
            Ages(
                reconciler.oldest_age_s(),
                reconciler.queue.head_age_s(),
                reconciler.queue.longest_taken_s(),
                reconciler.store.silent_s(),
            )
        )

    def _role(self) -> Role:
        return role_of(self.leads, self.watching.is_set(), self.lease.silent_s())


def build(settings: Settings) -> Operator:
    """Build an operator. Raises ConfigError when there is no access to an API server."""
    kopf_settings = kopf.OperatorSettings()
    metrics = Metrics()
    access = access_of(login(kopf_settings))
    client = Client(access, metrics.called)
    lease_client = Client(access, metrics.called, CALL_S)
    lease = OperatorLease(lease_client, settings.namespace, settings.lease, settings.identity, settings.pod_uid)
    store, queue = Store(time.monotonic), WorkQueue(time.monotonic)
    foreign = ForeignObjects(time.monotonic)
    observer = Observer(client, store, foreign, time.monotonic, _wall_s)
    runner = ActionRunner(client, store, foreign, Events(client))
    reconciler = Reconciler(store, queue, observer, runner, metrics.reconciled)
    metrics.watch("penstock_operator_queue_depth", "Jobs that are due", queue.depth)
    metrics.watch(
        "penstock_operator_oldest_job_seconds",
        "For how long some job had no reconcile",
        reconciler.oldest_age_s,
    )
    metrics.watch("penstock_operator_queue_head_seconds", "Age of the oldest due job", queue.head_age_s)
    metrics.watch(
        "penstock_operator_watch_silent_seconds",
        "For how long a watch has not shown one of our own writes",
        store.silent_s,
    )
    metrics.watch(
        "penstock_operator_autoscaled_workers",
        "Workers that the built-in autoscaler wants, over all jobs",
        lambda: float(store.autoscaled_workers()),
    )
    metrics.watch_jobs(lambda: [store.job(key) for key in store.jobs()])
    stop, watching = asyncio.Event(), asyncio.Event()
    return Operator(settings, kopf_settings, client, metrics, reconciler, stop, watching, lease)


def _wall_s() -> float:
    return time.time_ns() / 1e9  # like the times in objects, which people read


async def _main(settings: Settings) -> int:
    operator = build(settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, operator.stop.set)
    return await operator.run()


def main() -> int:
    """Run the operator; returns its exit status."""
    # Every list and watch parses the objects of all tenants: a deep one must not end the process.
    sys.setrecursionlimit(RECURSION_MAX)
    gc.freeze()  # imported modules stay
    gc.set_threshold(COLLECT_AFTER)
    try:
        settings = read_settings(os.environ)
        log_as_json(settings.log_level)
        status = START_AGAIN
        while status == START_AGAIN:
            status = asyncio.run(_main(settings))
    except ConfigError as error:
        logging.getLogger("penstock_operator").error(str(error))
        return EXIT_CONFIG
    return status
