"""One reconcile: look and decide; where something is to be done, look closely, decide, do it.

What is only to be shown (epochs, rows) is written from the first look: the server refuses it when
the job has changed, and nothing follows from it. Of one job it is written once in
``SHOW_INTERVAL_S`` at most, of all jobs together ``SHOWS_PER_S`` times a second at most.
"""

import asyncio
import logging
import math
import random
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
from penstock_operator.reconcile.actions import Decision
from penstock_operator.reconcile.decide import REST_S, decide
from penstock_operator.reconcile.snapshots import decide_orphans

LOG = logging.getLogger("penstock_operator.reconcile")
ORPHANS_AGAIN_S = 5.0
SHOW_INTERVAL_S = 60.0  # between two writes of what changes by itself, whatever the job's interval
SHOWS_PER_S = 4.0  # of a fleet: with more jobs than that each of them is shown less often
REFRESH_S = 600.0  # between two times that all objects of a job are applied anew
RELIST_S = 300.0  # between two comparisons of everything with the server
JITTER = 0.2  # of a time at rest: what began together does not stay together
FIRST_REFRESHES_PER_S = 10.0  # of an operator that has just begun


@dataclass(slots=True)
class Reconciler:
    """``told`` hears (outcome, seconds) of each reconcile; ``chance`` gives numbers of 0 to 1."""

    store: Store
    queue: WorkQueue
    observer: Observer
    performer: Performer
    told: Callable[[str, float], None]
    chance: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic
    reconciled: dict[JobKey, float] = field(default_factory=dict)
    refresh_at: dict[JobKey, float] = field(default_factory=dict)
    shown: dict[JobKey, float] = field(default_factory=dict)

    async def work(self) -> None:
        """Take keys for ever."""
        while True:
            key = await self.queue.take()
            begun = self.clock()
            try:
                again_s = await self.reconcile(key)
            except ApiError as error:
                self._failed(key, error, begun)
            except Exception as error:
                # A bug in one job's decision must not stop the others; it is counted and shown.
                LOG.exception("reconcile failed", extra={"job": str(key)})
                self._failed(key, error, begun)
            else:
                self.told("done", self.clock() - begun)
                self._done(key, again_s)

    async def relist(self, lister: Lister) -> None:
        """Compare the store with the server for ever, and look at every job that differed."""
        while True:
            await asyncio.sleep(self._about(RELIST_S))
            try:
                differing = await lister.list_again()
            except ApiError as error:
                LOG.warning("cannot list", extra={"reason": str(error)})
                continue
            for key in differing:
                self.queue.add(key)

    async def reconcile(self, key: JobKey) -> float | None:
        """Bring one job nearer to what is wanted. Returns after how long to look again."""
        now = self.clock()
        refresh = now >= self._refresh_at(key, now)
        seen = await self.observer.look(key, refresh=refresh)
        if seen is None:
            return await self._orphans(key)
        decided = decide(seen)
        if seen.refusal is not None and not (decided.actions or decided.status_first):
            # What was refused is not wanted any more: nothing is left to be refused.
            self.observer.refusals.pop(key, None)
            seen = replace(seen, refusal=None)
            decided = decide(seen)
        if decided.shows and not refresh:
            return self._rest(key, await self._show(key, seen, decided), now)
        if decided.actions or decided.status is not None or refresh:
            seen = await self.observer.look_closely(key, refresh=refresh)
            if seen is None:
                return None
            decided = decide(seen)
            _log(key, await self._perform(key, seen, decided))
        if refresh:
            self.refresh_at[key] = now + self._about(REFRESH_S)
        # What was done shows in the watches; until then the store has what the writes returned.
        # A status is looked at again, too: our own writes of it wake nobody.
        follows = decided.actions or (decided.status is not None and not decided.shows)
        return 0.0 if follows else self._rest(key, decided.again_s, now)

    async def _show(self, key: JobKey, seen: Observed, decided: Decision) -> float | None:
        """Write the status if it was not written for long enough. Returns when to look again."""
        now = self.clock()
        interval = max(SHOW_INTERVAL_S, len(self.store.known) / SHOWS_PER_S)
        wait = self.shown.get(key, -math.inf) + interval - now
        if wait > 0:
            return wait if decided.again_s is None else min(wait, decided.again_s)
        self.shown[key] = now
        await self.performer.perform(seen, decided)
        return decided.again_s

    def _refresh_at(self, key: JobKey, now: float) -> float:
        """Return when all objects of the job are applied anew; soon, but spread, at first."""
        if key not in self.refresh_at:
            window = min(len(self.store.jobs()) / FIRST_REFRESHES_PER_S, REFRESH_S)
            self.refresh_at[key] = now + self.chance() * window
        return self.refresh_at[key]

    def _rest(self, key: JobKey, again_s: float | None, now: float) -> float:
        """Return when to look again; a rest is stretched a little, each time by another share."""
        wish = REST_S if again_s is None else again_s
        wait = self._about(wish) if wish >= REST_S else wish
        return min(wait, max(0.0, self.refresh_at[key] - now))

    def _about(self, seconds: float) -> float:
        return seconds * (1.0 + JITTER * self.chance())

    async def _perform(self, key: JobKey, seen: Observed, decided: Decision) -> list[str]:
        """Do it; where a write is refused, the status says so before anything is tried again."""
        try:
            done = await self.performer.perform(seen, decided)
        except RefusedError as error:
            refusal = self.observer.refused(key, error.what, error)
            await self.performer.tell(seen, decide(replace(seen, refusal=refusal)))
            raise
        self.observer.refusals.pop(key, None)
        return done

    async def _orphans(self, key: JobKey) -> float | None:
        """Look after StreamSnapshots without a job; nothing else outlives one."""
        if not any(kind == kinds.STREAM_SNAPSHOT.kind for kind, _ in self.store.objects(key)):
            return None
        seen = await self.observer.look_at_orphans(key)
        if seen is None:
            return ORPHANS_AGAIN_S
        decided = decide_orphans(seen)
        _log(key, await self.performer.perform(seen, decided))
        return decided.again_s

    def oldest_age_s(self) -> float:
        """Return for how long some job has had no reconcile."""
        now = self.clock()
        return max(
            (now - self.reconciled.setdefault(k, now) for k in self.store.jobs()), default=0.0
        )

    def _done(self, key: JobKey, again_s: float | None) -> None:
        if self.store.job(key) is None:
            self.reconciled.pop(key, None)
            self.refresh_at.pop(key, None)
            self.shown.pop(key, None)
            self.observer.forget(key)
            if again_s is None:
                self.queue.forget(key)
            else:
                self.queue.done(key, again_s)
            return
        self.reconciled[key] = self.clock()
        self.queue.done(key, REST_S if again_s is None else again_s)

    def _failed(self, key: JobKey, error: Exception, begun: float) -> None:
        conflict = isinstance(error, ApiError) and error.conflict
        self.told("conflict" if conflict else "failed", self.clock() - begun)
        later = error.retry_after_s if isinstance(error, ApiError) else 0.0
        if later:
            self.queue.pause(later)  # it would refuse the others, too
        wait = self.queue.failed(key, later)
        if conflict:
            return  # Somebody was faster: look again, that is all; if he always is, less often.
        LOG.warning("reconcile failed", extra={"job": str(key), "reason": str(error), "wait": wait})


def _log(key: JobKey, done: list[str]) -> None:
    """Say what has changed something: to apply what is there already is no news."""
    if done:
        LOG.info("reconciled", extra={"job": str(key), "actions": " ".join(done)})
