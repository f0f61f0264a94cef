"""Probes and metrics over HTTP. Alive is who gets work done, not who answers.

/healthz fails when a job was not looked at for far too long, when the queue's head waits, when a
reconcile does not end, when a watch owes what we wrote ourselves, and, as nobody answers then,
when the operator's loop does not turn. /readyz fails while nothing is served yet.
"""

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

OLDEST_S = 1200.0  # a job is looked at every RESYNC_S even when nothing happens
HEAD_S = 180.0
TAKEN_S = 300.0  # a call ends after 15 s, and a reconcile makes some dozens
SILENT_S = 420.0  # Kopf leaves a frozen connection after 330 s and begins another


@dataclass(frozen=True, slots=True)
class Ages:
    """For how long what should have happened has not, in seconds; 0: nothing is late.

    ``oldest``: since some job was looked at. ``head``: of the queue's. ``taken``: a reconcile is
    under way. ``silent``: a watch has not shown what was written.
    """

    oldest: float = 0.0
    head: float = 0.0
    taken: float = 0.0
    silent: float = 0.0


@dataclass(frozen=True, slots=True)
class Health:
    """``stuck`` says what is wrong, empty when nothing is; ``ready`` that watches run or wait."""

    stuck: Callable[[], str]
    ready: Callable[[], bool]
    page: Callable[[], bytes]

    async def serve(self, port: int) -> tuple[web.AppRunner, int]:
        """Listen on all addresses; returns the runner, to be cleaned up, and the port."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, port=port)
        await site.start()
        # Of port 0 each family gets another one: that of IPv4 is told, where there is one.
        found = min(runner.addresses, key=len)
        return runner, int(found[1])

    async def _healthz(self, _request: web.Request) -> web.Response:
        problem = self.stuck()
        return web.Response(status=503 if problem else 200, text=problem or "ok")

    async def _readyz(self, _request: web.Request) -> web.Response:
        ready = self.ready()
        return web.Response(status=200 if ready else 503, text="ok" if ready else "starting")

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=self.page(), content_type="text/plain")


def problem_of(ages: Ages) -> str:
    """Say what is stuck, empty when nothing is."""
    limits = (
        (ages.oldest, OLDEST_S, "a job was not looked at"),
        (ages.head, HEAD_S, "the queue's head has waited"),
        (ages.taken, TAKEN_S, "a reconcile has not ended"),
        (ages.silent, SILENT_S, "a watch has not shown our own write"),
    )
    return "; ".join(f"{text} for {age:.0f} s" for age, limit, text in limits if age > limit)
