"""One reconcile: observe from the store and decide; before any action observe live and decide again.

A status that only shows progress (epochs, rows) is written after the first observation. This is
safe: the server refuses it when the job has changed, and nothing follows from it. It is written at
most once in ``SHOW_INTERVAL_S`` for one job, and ``SHOWS_PER_S`` times a second for all jobs.
"""

import asyncio
import logging
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.base.values import replace
from penstock.contract.streamjob_status import status_plain
from penstock.kubernetes.answers import ApiError
from penstock_operator.api import kinds
from penstock_operator.api.observed import Observed
from penstock_operator.api.plain import object_at
from penstock_operator.cluster.listing import Lister
from penstock_operator.cluster.observe import Observer
from penstock_operator.cluster.perform import ActionRunner, RefusedError
from penstock_operator.cluster.store import JobKey, Store
from penstock_operator.handlers.work_queue import WorkQueue
from penstock_operator.reconcile.actions import Decision
from penstock_operator.reconcile.decide import REST_S, decide
from penstock_operator.reconcile.snapshots import decide_orphans

LOG = logging.getLogger("penstock_operator.reconcile")
ORPHANS_AGAIN_S = 5.0
SHOW_INTERVAL_S = 60.0  # between two writes of progress, whatever the checkpoint interval is
SHOWS_PER_S = 4.0  # for all jobs: with many jobs, each of them is shown less often
SHOW_INTERVAL_MAX_S = 600.0  # with very many jobs, more writes than that
REFRESH_S = 600.0  # between two times that all objects of a job are applied again
REFRESHES_PER_S = 0.25  # for all jobs, each of some twenty calls: with many jobs, each is refreshed less often
RELIST_S = 300.0  # between two comparisons of the whole store with the server
JITTER = 0.2  # of a wait at rest: jobs that started together do not stay in step
FIRST_REFRESHES_PER_S = 10.0  # after the start of the operator


@dataclass(slots=True)
class Reconciler:
    """``told`` gets (outcome, seconds) of each reconcile; ``chance`` gives numbers of 0 to 1.

    ``dropped`` are the fields of a status that the log has named because the server does not keep them.
    """

    store: Store
    queue: WorkQueue
    observer: Observer
    runner: ActionRunner
    told: Callable[[str, float], None]
    chance: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic
    reconciled: dict[JobKey, float] = field(default_factory=dict)
    refresh_at: dict[JobKey, float] = field(default_factory=dict)
    shown: dict[JobKey, float] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)

    async def work(self) -> None:
        """Take keys from the queue and reconcile them, forever."""
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
        """Compare the store with the server from time to time, forever; queue jobs that differ."""
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
        """Reconcile one job. Returns after how long to reconcile it again."""
        now = self.clock()
        refresh = now >= self._refresh_at(key, now)
        seen = await self.observer.look(key, refresh=refresh)
        if seen is None:
            return await self._orphans(key)
        decided = decide(seen)
        if seen.refusal is not None and not (decided.actions or decided.status_first):
            # The refused write is not needed any more, so the refusal is over.
            self.observer.refusals.pop(key, None)
            seen = replace(seen, refusal=None)
            decided = decide(seen)
        if decided.status_may_wait and not refresh:
            return self._rest(key, await self._show(key, seen, decided), now)
        changed = False
        if decided.actions or decided.status is not None or refresh:
            seen = await self.observer.look_closely(key, refresh=refresh)
            if seen is None:
                return None
            decided = decide(seen)
            done = await self._perform(key, seen, decided)
            _log(key, done)
            if decided.status is not None:
                self.shown[key] = now  # it has the progress, too
            changed = bool(done) or self._is_status_changed(key, seen, decided)
        if refresh:
            self.refresh_at[key] = now + self._about(max(REFRESH_S, len(self.store.known) / REFRESHES_PER_S))
        # Watches report what was done; until then the store has what the writes returned. After a
        # status write the job is reconciled again, too: our own writes of it queue nothing. Where the
        # writes have changed nothing, the next reconcile would decide the same, so it may wait.
        return 0.0 if changed else self._rest(key, decided.again_s, now)

    def _is_status_changed(self, key: JobKey, seen: Observed, decided: Decision) -> bool:
        """Say whether the write of the status has changed the job in more than its progress.

        It changes nothing where the definition of StreamJob is older than this operator, and does not
        have the fields that differ.
        """
        job = self.store.job(key)
        if job is None or decided.status is None or decided.status_may_wait:
            return job is None
        if self.store.version_at(job) != seen.job.version:
            return True
        stored = object_at(job, "status")
        found = {f"status.{n}" for n, sent in status_plain(decided.status).items() if stored.get(n) != sent}
        if not found <= self.dropped:
            self.dropped |= found
            remedy = "apply the definitions of this version: kubectl apply --server-side -f crds"
            told = {"job": str(key), "fields": ", ".join(sorted(found)), "remedy": remedy}
            LOG.warning("the API server does not keep what is written to a status", extra=told)
        return False

    async def _show(self, key: JobKey, seen: Observed, decided: Decision) -> float | None:
        """Write progress if it was not written for a while. Returns when to reconcile again.

        A job at rest is reconciled to show its progress only, so not before the next write may come.
        """
        now = self.clock()
        interval = min(max(SHOW_INTERVAL_S, len(self.store.known) / SHOWS_PER_S), SHOW_INTERVAL_MAX_S)
        wait = self.shown.get(key, -math.inf) + interval - now
        if wait <= 0:
            self.shown[key], wait = now, interval
            await self.runner.perform(seen, decided)
        again_s = REST_S if decided.again_s is None else decided.again_s
        return wait if again_s >= REST_S else min(wait, again_s)

    def _refresh_at(self, key: JobKey, now: float) -> float:
        """Return when all objects are applied again. The first times are soon, but spread."""
        if key not in self.refresh_at:
            window = min(len(self.store.jobs()) / FIRST_REFRESHES_PER_S, REFRESH_S)
            self.refresh_at[key] = now + self.chance() * window
        return self.refresh_at[key]

    def _rest(self, key: JobKey, again_s: float | None, now: float) -> float:
        """Return when to reconcile again. Long waits get a random extra, so jobs stay apart."""
        wish = REST_S if again_s is None else again_s
        wait = self._about(wish) if wish >= REST_S else wish
        return min(wait, max(0.0, self.refresh_at[key] - now))

    def _about(self, seconds: float) -> float:
        return seconds * (1.0 + JITTER * self.chance())

    async def _perform(self, key: JobKey, seen: Observed, decided: Decision) -> list[str]:
        """Perform a decision. If a write is refused, the status says so before the next try."""
        try:
            done = await self.runner.perform(seen, decided)
        except RefusedError as error:
            refusal = self.observer.refused(key, error.what, error)
            await self.runner.tell(seen, decide(replace(seen, refusal=refusal)))
            raise
        self.observer.refusals.pop(key, None)
        return done

    async def _orphans(self, key: JobKey) -> float | None:
        """Handle StreamSnapshots without a job; no other kind needs this."""
        if not any(kind == kinds.STREAM_SNAPSHOT.kind for kind, _ in self.store.objects(key)):
            return None
        seen = await self.observer.look_at_orphans(key)
        if seen is None:
            return ORPHANS_AGAIN_S
        decided = decide_orphans(seen)
        _log(key, await self.runner.perform(seen, decided))
        return decided.again_s

    def oldest_age_s(self) -> float:
        """Return the longest time that no reconcile of a job has ended, well or with an error."""
        now = self.clock()
        return max((now - self.reconciled.setdefault(k, now) for k in self.store.jobs()), default=0.0)

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
            self.queue.pause(later)  # the server would refuse the other jobs, too
        wait = self.queue.failed(key, later)
        self.reconciled[key] = self.clock()  # it was tried: a job that is refused is no sign of a stuck process
        if conflict:
            return  # Another writer was faster. The job is tried again, with growing waits.
        LOG.warning("reconcile failed", extra={"job": str(key), "reason": str(error), "wait": wait})


def _log(key: JobKey, done: list[str]) -> None:
    """Log the actions that changed something. An apply without a change is not logged."""
    if done:
        LOG.info("reconciled", extra={"job": str(key), "actions": " ".join(done)})
