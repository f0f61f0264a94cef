"""Starts the operator: probes first, then the Lease, then Kopf, whose startup starts the rest.

Losing the Lease ends the process: a new one begins from what is there. So it does, in the same
process, when a definition of ours has come or gone (``handlers.definitions``).
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
from penstock_operator.cluster.access import access_of, login
from penstock_operator.cluster.client import Client
from penstock_operator.cluster.events import Events
from penstock_operator.cluster.lease import OperatorLease
from penstock_operator.cluster.listing import Lister
from penstock_operator.cluster.observe import Observer
from penstock_operator.cluster.perform import Performer
from penstock_operator.cluster.store import Store
from penstock_operator.cluster.strangers import Strangers
from penstock_operator.handlers.backoff import Backoffs
from penstock_operator.handlers.definitions import Definitions
from penstock_operator.handlers.reconciler import Reconciler
from penstock_operator.handlers.records import ABSENT, KINDS, RecordWatch
from penstock_operator.handlers.registry import Parts, handlers
from penstock_operator.handlers.spark_watches import SparkWatches
from penstock_operator.handlers.work_queue import WorkQueue

LOG = logging.getLogger("penstock_operator")
T = TypeVar("T")
EXIT_CONFIG = 2
EXIT_LEASE = 3
ANEW = -1  # begin again, in this process
PAUSE_S = 1.0  # before that, where a kind is told of and not there
# Kopf copies each object that it watches, two calls for each level. Calls of Python need no stack
# of C; JSON does, and was read and written 40,000 deep on the usual 8 MiB (Python 3.11).
RECURSION_MAX = 3 * API_DEPTH_MAX
# What is watched is read, kept and replaced all the time, and has no cycles: with the usual 700
# new objects between two searches for some, they are a sixth of what a fleet at rest costs.
COLLECT_AFTER = 50_000


@dataclass(slots=True)
class Operator:
    """All parts of one process. ``port`` is known once :meth:`run` listens."""

    settings: Settings
    kopf_settings: kopf.OperatorSettings
    client: Client
    metrics: Metrics
    reconciler: Reconciler
    stop: asyncio.Event
    watching: asyncio.Event
    port: int = 0
    leads: bool = False
    changed: bool = False
    lease: OperatorLease = field(init=False)
    definitions: Definitions = field(init=False)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make what asks: for the Lease of all operators of a namespace, for definitions."""
        s = self.settings
        self.lease = OperatorLease(self.client, s.namespace, s.identity, s.pod_uid)
        self.definitions = Definitions(self.client)

    async def run(self) -> int:
        """Serve until told to stop. Returns the exit status, or ANEW."""
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

    async def _unless_stopped(self, waiting: Coroutine[None, None, T]) -> T | None:
        """Wait for what it returns; None when told to stop before."""
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
        """Have Kopf run until it is told to stop, one of our tasks ends, or definitions change."""
        self.leads = True
        self.metrics.leading.set(1)
        reconciler, port = self.reconciler, self.settings.probe_port
        parts = Parts(
            reconciler.store, reconciler.queue, self._begin, self._end, self._stuck, served
        )
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
            if getattr(error, "status", 0) == ABSENT:  # what Kopf watches was there when it began
                LOG.info("begins anew", extra={"reason": "a definition has gone"})
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
        return ANEW if self.changed else 0

    async def _stop_for_more(self, served: tuple[Kind, ...]) -> None:
        await self.definitions.until_more(served)
        LOG.info("begins anew", extra={"reason": "a definition has come"})
        self.changed = True
        self.stop.set()

    async def _begin(self) -> None:
        """Start our own tasks: Kopf's startup handler."""
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
        """End our own tasks: Kopf's cleanup handler."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _guard(self, task: Coroutine[None, None, None]) -> None:
        """Run a task that has no end: if it has one, so has the operator."""
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
        """Reconcile once all records are known: what is not listed yet would be made again."""
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
    """Put an operator together. Raises ConfigError when there is no API server to talk to."""
    kopf_settings = kopf.OperatorSettings()
    metrics = Metrics()
    client = Client(access_of(login(kopf_settings)), metrics.called)
    store, queue = Store(time.monotonic), WorkQueue(time.monotonic)
    strangers = Strangers(time.monotonic)
    observer = Observer(client, store, strangers)
    performer = Performer(client, store, strangers, Events(client))
    reconciler = Reconciler(store, queue, observer, performer, metrics.reconciled)
    metrics.watch("penstock_operator_queue_depth", "Jobs that are due", queue.depth)
    metrics.watch(
        "penstock_operator_oldest_job_seconds",
        "For how long some job had no reconcile",
        reconciler.oldest_age_s,
    )
    metrics.watch(
        "penstock_operator_queue_head_seconds", "Age of the oldest due job", queue.head_age_s
    )
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
    return Operator(settings, kopf_settings, client, metrics, reconciler, stop, watching)


async def _main(settings: Settings) -> int:
    operator = build(settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, operator.stop.set)
    return await operator.run()


def main() -> int:
    """Run the operator; returns its exit status."""
    # One tenant's object would else end it for all: whoever lists or watches has to parse it.
    sys.setrecursionlimit(RECURSION_MAX)
    gc.freeze()  # what is imported stays
    gc.set_threshold(COLLECT_AFTER)
    try:
        settings = read_settings(os.environ)
        log_as_json(settings.log_level)
        status = ANEW
        while status == ANEW:
            status = asyncio.run(_main(settings))
    except ConfigError as error:
        logging.getLogger("penstock_operator").error(str(error))
        return EXIT_CONFIG
    return status
