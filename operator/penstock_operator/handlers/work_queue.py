"""A work queue: it holds each key once, gives it to one worker, and delays it after failures.

::

    add ──> waiting until due ──> taken ──> done ──> (added meanwhile: waiting again)

``due`` has the time of each key, and ``_heap`` orders them, so a take costs the logarithm of their
number. Heap entries with an outdated time are skipped.
"""

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock_operator.cluster.store import JobKey

PAUSE_S = 0.2  # between two reconciles of one job: events of this time are handled together
BACKOFF_FIRST_S = 0.5
BACKOFF_MAX_S = 30.0


@dataclass(slots=True)
class WorkQueue:
    """A queue for one event loop. ``clock`` is monotonic, in seconds."""

    clock: Callable[[], float]
    due: dict[JobKey, float] = field(default_factory=dict)
    taken: dict[JobKey, float] = field(default_factory=dict)
    failures: dict[JobKey, int] = field(default_factory=dict)
    paused_until: float = 0.0
    _heap: list[tuple[float, JobKey]] = field(default_factory=list)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _head_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def add(self, key: JobKey, after_s: float = 0.0) -> None:
        """Queue a key for this time, or keep an earlier one."""
        at = self.clock() + after_s
        known = self.due.get(key)
        # An event does not make a failing call succeed, so the bounded wait stays.
        keeps = known is not None and (at >= known or key in self.failures)
        if not keeps:
            self._set_due(key, at)

    async def take(self) -> JobKey:
        """Wait for the key that has been due the longest, and take it."""
        async with self._head_lock:  # only one worker waits for the head, so only one is woken
            return await self._take()

    async def _take(self) -> JobKey:
        while True:
            now = self.clock()
            head = self._head()
            begins = None if head is None else max(head[0], self.paused_until)
            if head is not None and begins is not None and begins <= now:
                key = heapq.heappop(self._heap)[1]
                del self.due[key]
                self.taken[key] = now
                return key
            self._wake.clear()
            try:
                await asyncio.wait_for(self._wake.wait(), None if begins is None else begins - now)
            except TimeoutError:
                continue

    def pause(self, for_s: float) -> None:
        """Have no key taken for so long: the server has asked for it, and would refuse others."""
        self.paused_until = max(self.paused_until, self.clock() + for_s)

    def done(self, key: JobKey, again_s: float | None) -> None:
        """Give a key back; it is taken again after ``again_s``, or when it is added."""
        self.failures.pop(key, None)
        self._release(key)
        if again_s is not None:
            self.add(key, max(again_s, PAUSE_S))

    def failed(self, key: JobKey, at_least_s: float = 0.0) -> float:
        """Give a key back that failed; it waits longer each time. Returns for how long."""
        count = self.failures.get(key, 0)
        self.failures[key] = count + 1
        self._release(key)
        wait = max(min(BACKOFF_FIRST_S * 2.0 ** min(count, 16), BACKOFF_MAX_S), at_least_s)
        self._set_due(key, self.clock() + wait)
        return wait

    def forget(self, key: JobKey) -> None:
        """Drop what is known of a job that is gone."""
        self.failures.pop(key, None)
        self._release(key)

    def _release(self, key: JobKey) -> None:
        self.taken.pop(key, None)
        if key in self.due:  # added meanwhile
            self._set_due(key, max(self.due[key], self.clock() + PAUSE_S))

    def _set_due(self, key: JobKey, at: float) -> None:
        self.due[key] = at
        if key in self.taken:
            return  # it comes back when it is given back
        heapq.heappush(self._heap, (at, key))
        if self._heap[0] == (at, key):
            self._wake.set()

    def _head(self) -> tuple[float, JobKey] | None:
        """Return the first entry that still holds; those before it are dropped."""
        while self._heap:
            at, key = self._heap[0]
            if self.due.get(key) == at and key not in self.taken:
                return at, key
            heapq.heappop(self._heap)
        return None

    def depth(self) -> int:
        """Count the keys that are due and wait."""
        now = self.clock()
        return sum(at <= now and key not in self.taken for key, at in self.due.items())

    def head_age_s(self) -> float:
        """Return how long the oldest due key has waited."""
        now = self.clock()
        return max((now - at for k, at in self.due.items() if k not in self.taken), default=0.0)

    def longest_taken_s(self) -> float:
        """Return for how long the slowest worker has been at its key."""
        now = self.clock()
        return max((now - since for since in self.taken.values()), default=0.0)
