"""Probes and metrics over HTTP. A process is alive when its work proceeds, not when it answers.

/healthz fails when a job was not reconciled for a long time, when the head of the queue waits, when
a reconcile does not end, or when a watch does not show our own write. A blocked event loop does not
answer at all, which also counts as a failure.

/readyz fails while a process cannot do its part. A leader is not ready before its watches run. A
standby is not ready while it does not learn from the API server who leads.

/leadz succeeds only in the process that leads. It shows which of two ready pods does the work.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from aiohttp import web

from penstock_operator.app.callers import Callers

OLDEST_S = 1200.0  # each job is reconciled every REST_S even when nothing happens
HEAD_S = 180.0
TAKEN_S = 300.0  # a call ends after 15 s, and a reconcile makes some dozens of calls
ASKED_S = 15.0  # a standby reads the Lease every two seconds, and each call has a deadline
SILENT_S = 420.0  # a watch without a bookmark is connected again after 70 s


@dataclass(frozen=True, slots=True)
class Ages:
    """How late things are, in seconds; 0: nothing is late.

    - ``oldest``: the longest time since a job was reconciled.
    - ``head``: how long the head of the queue has waited.
    - ``taken``: how long the longest reconcile has run.
    - ``silent``: how long a watch has not shown our own write.
    """

    oldest: float = 0.0
    head: float = 0.0
    taken: float = 0.0
    silent: float = 0.0


class Role(StrEnum):
    """What a process does now."""

    STARTING = "starting"  # nothing yet: its watches do not run, or the API server does not answer
    STANDBY = "standing by"  # it waits for the Lease; another process handles the jobs
    LEADING = "leading"  # it holds the Lease, and its watches run


def role_of(leads: bool, watching: bool, silent_s: float) -> Role:
    """Name the role; ``silent_s``: the time since the API server last said who holds the Lease."""
    if leads:
        return Role.LEADING if watching else Role.STARTING
    return Role.STANDBY if silent_s <= ASKED_S else Role.STARTING


@dataclass(frozen=True, slots=True)
class Health:
    """Serves the probes. ``stuck`` says what is wrong (empty: nothing), ``role`` the role."""

    stuck: Callable[[], str]
    role: Callable[[], Role]
    page: Callable[[], bytes]

    async def serve(self, port: int) -> tuple[web.AppRunner, int]:
        """Listen on all addresses. Returns the runner, which the caller cleans up, and the port."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/leadz", self._leadz)
        app.router.add_get("/metrics", self._metrics)
        app.on_response_prepare.append(_hang_up_after)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await _Site(runner, port).start()
        # With port 0 each address family gets its own port: return that of IPv4 if there is one.
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


async def _hang_up_after(_request: web.Request, response: web.StreamResponse) -> None:
    """Close the connection after its answer: each has one deadline, for one request."""
    response.force_close()


class _Site(web.BaseSite):
    """Listens on all addresses. A caller that is slow, or one of too many, is sent away."""

    def __init__(self, runner: web.AppRunner, port: int) -> None:
        super().__init__(runner)
        self._port = port

    @property
    def name(self) -> str:
        return f"http://*:{self._port}"

    async def start(self) -> None:
        await super().start()
        make = self._runner.server
        assert make is not None, "the runner was set up"
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(Callers(make), port=self._port, reuse_address=True)


def problem_of(ages: Ages) -> str:
    """Say what is stuck; empty when nothing is."""
    limits = (
        (ages.oldest, OLDEST_S, "a job was not reconciled"),
        (ages.head, HEAD_S, "the head of the queue has waited"),
        (ages.taken, TAKEN_S, "a reconcile has not ended"),
        (ages.silent, SILENT_S, "a watch has not shown our own write"),
    )
    return "; ".join(f"{text} for {age:.0f} s" for age, limit, text in limits if age > limit)
