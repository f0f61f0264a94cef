"""Watches SparkApplications of each flavour while its definition exists.

::

    asked every 5 s while a job wants a replay ──> served: watched ──────> not served any more
             ^───────────────────────────────────────────────────────────────────┘

A Spark operator may be installed after ours, and ours need not be restarted. The kinds that Kopf
watches are fixed when it starts, so these are watched here. At rest no call is made.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.kubernetes.answers import ApiError
from penstock_operator.api import kinds
from penstock_operator.api.kinds import Kind
from penstock_operator.cluster.client import Client
from penstock_operator.cluster.store import Store
from penstock_operator.handlers.record_watch import RecordWatch
from penstock_operator.handlers.work_queue import WorkQueue

LOG = logging.getLogger("penstock_operator")
FLAVOURS = (kinds.SPARK_KUBEFLOW, kinds.SPARK_APACHE)
ASKED_EVERY_S = 5.0  # while a job wants a replay and its kind is not served


@dataclass(frozen=True, slots=True)
class SparkWatches:
    """``served`` are the served kinds; ``watches`` creates the watches of one kind.

    ``settled`` is set when both kinds were asked for, and the served ones were listed.
    """

    client: Client
    store: Store
    queue: WorkQueue
    served: set[Kind]
    watches: Callable[[Kind], list[RecordWatch]]
    settled: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Watch each flavour while it is served. Never returns."""
        known = [asyncio.Event() for _ in FLAVOURS]
        following = [self._follow(kind, event) for kind, event in zip(FLAVOURS, known, strict=True)]
        await asyncio.gather(*following, self._settle(known))

    async def _settle(self, known: list[asyncio.Event]) -> None:
        await asyncio.gather(*(event.wait() for event in known))
        self.settled.set()

    async def _follow(self, kind: Kind, known: asyncio.Event) -> None:
        first = True  # asked once at the start, for objects that earlier jobs left
        while True:
            if (first or self.store.replaying()) and await self._is_served(kind):
                await self._watch(kind, known)
            known.set()
            first = False
            await asyncio.sleep(ASKED_EVERY_S)

    async def _watch(self, kind: Kind, known: asyncio.Event) -> None:
        """Watch a kind while it is served. Queue the jobs that want a replay when that begins and when it ends."""
        LOG.info("watching", extra={"kind": f"{kind.plural}.{kind.group}"})
        watches = self.watches(kind)
        running = [asyncio.create_task(each.run_while_served()) for each in watches]
        try:
            await asyncio.gather(*(each.listed.wait() for each in watches))
            self._now(kind, served=True)
            known.set()
            await asyncio.gather(*running)
        finally:
            for task in running:
                task.cancel()
        LOG.info("not served any more", extra={"kind": f"{kind.plural}.{kind.group}"})
        self._now(kind, served=False)

    def _now(self, kind: Kind, *, served: bool) -> None:
        (self.served.add if served else self.served.discard)(kind)
        for key in self.store.replaying():
            self.queue.add(key)

    async def _is_served(self, kind: Kind) -> bool:
        try:
            return await self.client.serves(kind)
        except ApiError as error:
            LOG.warning("cannot ask for SparkApplications", extra={"reason": str(error)})
            return False
