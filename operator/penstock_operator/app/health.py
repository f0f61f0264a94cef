"""Probes and metrics over HTTP. Alive is who gets work done, not who answers.

/healthz fails when a job was not looked at for far too long, or the queue's head waits, or the
operator's loop does not turn; /readyz when nothing is served yet.
"""

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

OLDEST_S = 1200.0  # a job is looked at every RESYNC_S even when nothing happens
HEAD_S = 180.0


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
        found = runner.addresses[0][1]
        return runner, int(found)

    async def _healthz(self, _request: web.Request) -> web.Response:
        problem = self.stuck()
        return web.Response(status=503 if problem else 200, text=problem or "ok")

    async def _readyz(self, _request: web.Request) -> web.Response:
        ready = self.ready()
        return web.Response(status=200 if ready else 503, text="ok" if ready else "starting")

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=self.page(), content_type="text/plain")


def problem_of(oldest_s: float, head_s: float) -> str:
    """Say what is stuck, empty when nothing is."""
    if oldest_s > OLDEST_S:
        return f"a job was not looked at for {oldest_s:.0f} s"
    if head_s > HEAD_S:
        return f"the queue's head has waited for {head_s:.0f} s"
    return ""
