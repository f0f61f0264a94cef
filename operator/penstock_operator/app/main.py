"""Starts the operator: probes first, then the Lease, then Kopf, whose startup starts the rest.

Losing the Lease ends the process: a new one begins from what is there.
"""

import asyncio
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field

import kopf

from penstock.base.errors import ConfigError
from penstock.base.limits import API_DEPTH_MAX
from penstock_operator.api import kinds
from penstock_operator.api.kinds import Kind
from penstock_operator.app.health import Ages, Health, Role, problem_of, role_of
from penstock_operator.app.logs import log_as_json
from penstock_operator.app.metrics import Metrics
from penstock_operator.app.settings import Settings, read_settings
from penstock_operator.cluster.access import access_of, login
from penstock_operator.cluster.client import ApiError, Client
from penstock_operator.cluster.events import Events
from penstock_operator.cluster.lease import OperatorLease
from penstock_operator.cluster.listing import Lister
from penstock_operator.cluster.observe import Observer
from penstock_operator.cluster.perform import Performer
from penstock_operator.cluster.store import Store
from penstock_operator.cluster.strangers import Strangers
from penstock_operator.handlers.backoff import Backoffs
from penstock_operator.handlers.reconciler import Reconciler
from penstock_operator.handlers.records import KINDS, RecordWatch
from penstock_operator.handlers.registry import Parts, handlers
from penstock_operator.handlers.work_queue import WorkQueue

LOG = logging.getLogger("penstock_operator")
EXIT_CONFIG = 2
EXIT_LEASE = 3
# Kopf copies each object that it watches, two calls for each level. Calls of Python need no stack
# of C; JSON does, and was read and written 40,000 deep on the usual 8 MiB (Python 3.11).
RECURSION_MAX = 3 * API_DEPTH_MAX


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
    lease: OperatorLease = field(init=False)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the Lease that all operators of a namespace contend for."""
        s = self.settings
        self.lease = OperatorLease(self.client, s.namespace, s.identity, s.pod_uid)

    async def run(self) -> int:
        """Serve until told to stop. Returns the exit status."""
        health = Health(self._stuck, self._role, self.metrics.page)
        runner, self.port = await health.serve(self.settings.http_port)
        LOG.info("listening", extra={"port": self.port})
        try:
            if self.settings.leader_election and not await self._acquired():
                return 0
            return await self._lead()
        finally:
            if self.settings.leader_election:
                await self.lease.release()
            await runner.cleanup()
            await self.client.close()

    async def _acquired(self) -> bool:
        """Wait for the Lease; False when told to stop before."""
        stopped = asyncio.create_task(self._told_to_stop())
        acquired = asyncio.create_task(self.lease.acquire())
        await asyncio.wait({acquired, stopped}, return_when=asyncio.FIRST_COMPLETED)
        for task in (acquired, stopped):
            task.cancel()
        if acquired.done() and not acquired.cancelled():
            LOG.info("leading", extra={"identity": self.settings.identity})
            return True
        return False

    async def _lead(self) -> int:
        """Have Kopf run until it is told to stop, or one of our tasks ends."""
        self.leads = True
        self.metrics.leading.set(1)
        reconciler, port = self.reconciler, self.settings.probe_port
        spark = await self._spark()
        parts = Parts(
            reconciler.store, reconciler.queue, self._begin, self._end, self._stuck, spark
        )
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
            LOG.exception("Kopf has ended")
            self.ended.append(str(error))
        if self.ended:
            LOG.error("ended", extra={"reason": "; ".join(self.ended)})
        return EXIT_LEASE if self.ended else 0

    async def _begin(self) -> None:
        """Start our own tasks: Kopf's startup handler."""
        records = self._records()
        lister = Lister(self.client, self.reconciler.store, self.settings.namespaces)
        begun: list[Coroutine[None, None, None]] = [each.run() for each in records]
        begun.append(self.reconciler.relist(lister))
        begun += [self._work(records) for _ in range(self.settings.workers)]
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

    def _records(self) -> list[RecordWatch]:
        store, queue = self.reconciler.store, self.reconciler.queue
        backoffs = Backoffs(random.random)
        return [
            RecordWatch(self.client, store, queue, backoffs, kind, namespace)
            for kind in KINDS
            for namespace in self.settings.namespaces or ("",)
        ]

    async def _work(self, records: list[RecordWatch]) -> None:
        """Reconcile once all records are known: what is not listed yet would be made again."""
        await asyncio.gather(*(each.listed.wait() for each in records))
        await self.reconciler.work()

    async def _told_to_stop(self) -> None:
        await self.stop.wait()

    async def _spark(self) -> tuple[Kind, ...]:
        """Return the flavours that are served; one that is installed later needs a new start."""
        found = []
        for kind in (kinds.SPARK_KUBEFLOW, kinds.SPARK_APACHE):
            try:
                if await self.client.serves(kind):
                    found.append(kind)
            except ApiError as error:
                LOG.warning("cannot ask for SparkApplications", extra={"reason": str(error)})
        return tuple(found)

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
    try:
        settings = read_settings(os.environ)
        log_as_json(settings.log_level)
        return asyncio.run(_main(settings))
    except ConfigError as error:
        logging.getLogger("penstock_operator").error(str(error))
        return EXIT_CONFIG
