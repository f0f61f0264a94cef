"""Probes and metrics over HTTP. Alive is who gets work done, not who answers.

/healthz fails when a job was not looked at for far too long, when the queue's head waits, when a
reconcile does not end, when a watch owes what we wrote ourselves, and, as nobody answers then,
when the operator's loop does not turn. /readyz fails while a process is ready for nothing: as
leader before its watches run, as standby while it does not hear who leads. /leadz succeeds in one
process only, the one that does the work: of two Ready pods it tells which.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from aiohttp import web

OLDEST_S = 1200.0  # a job is looked at every REST_S even when nothing happens
HEAD_S = 180.0
TAKEN_S = 300.0  # a call ends after 15 s, and a reconcile makes some dozens
ASKED_S = 15.0  # a standby asks every two seconds, each call with a deadline
SILENT_S = 420.0  # a connection without a bookmark is left after 70 s


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


class Role(StrEnum):
    """What a process does now, and so what it is ready for."""

    STARTING = "starting"  # nothing yet: its watches do not run, or the API server is silent
    STANDBY = "standing by"  # contends for the Lease; jobs are another's
    LEADING = "leading"  # holds the Lease, and its watches run


def role_of(leads: bool, watching: bool, silent_s: float) -> Role:
    """Name the role; ``silent_s``: since the API server last said who holds the Lease."""
    if leads:
        return Role.LEADING if watching else Role.STARTING
    return Role.STANDBY if silent_s <= ASKED_S else Role.STARTING


@dataclass(frozen=True, slots=True)
class Health:
    """``stuck`` says what is wrong, empty when nothing is; ``role`` what this process does now."""

    stuck: Callable[[], str]
    role: Callable[[], Role]
    page: Callable[[], bytes]

    async def serve(self, port: int) -> tuple[web.AppRunner, int]:
        """Listen on all addresses; returns the runner, to be cleaned up, and the port."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/leadz", self._leadz)
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
        role = self.role()
        return web.Response(status=503 if role is Role.STARTING else 200, text=role)

    async def _leadz(self, _request: web.Request) -> web.Response:
        role = self.role()
        return web.Response(status=200 if role is Role.LEADING else 503, text=role)

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
