"""One reconcile: look and decide; where something is to be done, look closely, decide, do it."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from penstock_operator.api import kinds
from penstock_operator.api.observed import Observed
from penstock_operator.cluster.client import ApiError
from penstock_operator.cluster.listing import Lister
from penstock_operator.cluster.observe import Observer
from penstock_operator.cluster.perform import Performer, RefusedError
from penstock_operator.cluster.store import JobKey, Store
from penstock_operator.handlers.work_queue import WorkQueue
from penstock_operator.reconcile.decide import RESYNC_S, decide
from penstock_operator.reconcile.decision import Decision
from penstock_operator.reconcile.disposal import decide_orphans

LOG = logging.getLogger("penstock_operator.reconcile")
ORPHANS_AGAIN_S = 5.0


@dataclass(slots=True)
class Reconciler:
    """``told`` hears (outcome, seconds) of each reconcile."""

    store: Store
    queue: WorkQueue
    observer: Observer
    performer: Performer
    told: Callable[[str, float], None]
    reconciled: dict[JobKey, float] = field(default_factory=dict)
    refreshed: dict[JobKey, float] = field(default_factory=dict)

    async def work(self) -> None:
        """Take keys for ever."""
        while True:
            key = await self.queue.take()
            begun = time.monotonic()
            try:
                again_s = await self.reconcile(key)
            except ApiError as error:
                self._failed(key, error, begun)
            except Exception as error:
                # A bug in one job's decision must not stop the others; it is counted and shown.
                LOG.exception("reconcile failed", extra={"job": str(key)})
                self._failed(key, error, begun)
            else:
                self.told("done", time.monotonic() - begun)
                self._done(key, again_s)

    async def relist(self, lister: Lister) -> None:
        """Compare the store with the server for ever, and look at every job that differed."""
        while True:
            await asyncio.sleep(RESYNC_S)
            try:
                differing = await lister.list_again()
            except ApiError as error:
                LOG.warning("cannot list", extra={"reason": str(error)})
                continue
            for key in differing:
                self.queue.add(key)

    async def reconcile(self, key: JobKey) -> float | None:
        """Bring one job nearer to what is wanted. Returns after how long to look again."""
        now = time.monotonic()
        refresh = now - self.refreshed.get(key, -RESYNC_S) >= RESYNC_S
        seen = await self.observer.look(key, refresh=refresh)
        if seen is None:
            return await self._orphans(key)
        decided = decide(seen)
        if seen.refusal is not None and not (decided.actions or decided.status_first):
            # What was refused is not wanted any more: nothing is left to be refused.
            self.observer.refusals.pop(key, None)
            seen = replace(seen, refusal=None)
            decided = decide(seen)
        if decided.actions or decided.status is not None or refresh:
            seen = await self.observer.look_closely(key, refresh=refresh)
            if seen is None:
                return None
            decided = decide(seen)
            await self._perform(key, seen, decided)
            _log(key, decided)
        if refresh:
            self.refreshed[key] = now
        # What was done shows in the watches; until then the store has what the writes returned.
        return 0.0 if decided.actions or decided.status_first else decided.again_s

    async def _perform(self, key: JobKey, seen: Observed, decided: Decision) -> None:
        """Do it; where a write is refused, the status says so before anything is tried again."""
        try:
            await self.performer.perform(seen, decided)
        except RefusedError as error:
            refusal = self.observer.refused(key, error.what, error)
            await self.performer.tell(seen, decide(replace(seen, refusal=refusal)))
            raise
        self.observer.refusals.pop(key, None)

    async def _orphans(self, key: JobKey) -> float | None:
        """Look after StreamSnapshots without a job; nothing else outlives one."""
        if not any(kind == kinds.STREAM_SNAPSHOT.kind for kind, _ in self.store.objects(key)):
            return None
        seen = await self.observer.look_at_orphans(key)
        if seen is None:
            return ORPHANS_AGAIN_S
        decided = decide_orphans(seen)
        await self.performer.perform(seen, decided)
        _log(key, decided)
        return decided.again_s

    def oldest_age_s(self) -> float:
        """Return for how long some job has had no reconcile."""
        now = time.monotonic()
        known = set(self.store.jobs())
        for key in known - self.reconciled.keys():
            self.reconciled[key] = now
        return max((now - self.reconciled[key] for key in known), default=0.0)

    def _done(self, key: JobKey, again_s: float | None) -> None:
        if self.store.job(key) is None:
            self.reconciled.pop(key, None)
            self.refreshed.pop(key, None)
            self.observer.forget(key)
            if again_s is None:
                self.queue.forget(key)
            else:
                self.queue.done(key, again_s)
            return
        self.reconciled[key] = time.monotonic()
        self.queue.done(key, RESYNC_S if again_s is None else again_s)

    def _failed(self, key: JobKey, error: Exception, begun: float) -> None:
        self.told("failed", time.monotonic() - begun)
        wait = self.queue.failed(key)
        if isinstance(error, ApiError) and error.conflict:
            return  # Somebody was faster: look again, that is all; if he always is, less often.
        LOG.warning("reconcile failed", extra={"job": str(key), "reason": str(error), "wait": wait})


def _log(key: JobKey, decided: Decision) -> None:
    if decided.actions:
        names = [type(action).__name__ for action in decided.actions]
        LOG.info("reconciled", extra={"job": str(key), "actions": " ".join(names)})
