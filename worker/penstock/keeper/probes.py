"""Tells a slow worker from a dead one, for the kubelet.

A worker that is blocked by backpressure, compiles, or restores is alive: restarting it would cost
the job an attempt and help nobody. What shows death is a loop that does not turn, and a container
in which no host runs.
"""

import time
from collections.abc import Callable, Mapping

from penstock.base.limits import HOST_ABSENT_S, LOOP_STUCK_S
from penstock.contract import pod
from penstock.keeper.platforms import Facts
from penstock.metrics.pages import Probe


class Probes:
    """Answers of one keeper; each is None when all is well, else what is wrong."""

    def __init__(
        self,
        facts: Callable[[], Facts],
        host_absent_s: Callable[[float], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Judge by ``facts``; ``host_absent_s`` returns for how long no engine's host was connected."""
        self._facts = facts
        self._host_absent_s = host_absent_s
        self._clock = clock

    def by_path(self) -> Mapping[str, Probe]:
        """Return the probes by the path at which they are served."""
        return {
            pod.STARTUP_PATH: self.started,
            pod.LIVE_PATH: self.live,
            pod.READY_PATH: self.ready,
            pod.ENGINE_LIVE_PATH: self.engine_live,
        }

    def started(self) -> str | None:
        """A keeper that answers has started."""
        return None

    def live(self) -> str | None:
        """The loop turns: it has something due about twice a second."""
        still_s = self._clock() - self._facts().turned_at
        return f"the loop stands still for {still_s:.0f} s" if still_s > LOOP_STUCK_S else None

    def ready(self) -> str | None:
        """The engine runs the attempt that it was last given."""
        facts = self._facts()
        if not facts.wanted:
            return "no engine is wanted here"
        return None if facts.running else "the engine does not run the newest attempt yet"

    def engine_live(self) -> str | None:
        """The engine's container serves; whether the engine in it is well is the keeper's affair.

        The keeper ends an engine that is silent, and its host starts the next one: only a
        container without a host needs the kubelet.
        """
        absent_s = self._host_absent_s(self._clock())
        if absent_s <= HOST_ABSENT_S:
            return None
        return f"nobody in the engine's container has called for {absent_s:.0f} s"
