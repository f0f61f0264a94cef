"""The operator as Kopf sees it: startup, login, probes, an index, event handlers, cleanup.

::

    startup ──> login ──> lists, kind by kind ──> index full ──> events ──> store ──> queue
       └── our own tasks: Lease, records, queue ──────────────────────────────> cleanup

Kopf watches, logs in, and runs the process. Decisions about a job are made elsewhere
(``reconcile``). A handler puts the object into the store, and the jobs that it matters to into the
queue. There are no timers, daemons or change handlers: those put a finalizer and annotations on
every object, and decide from one object alone (docs/decisions/053).
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import kopf

from penstock.contract import pod
from penstock_operator.api import kinds
from penstock_operator.api.kinds import Kind
from penstock_operator.cluster.client import WATCH_SILENT_S, login
from penstock_operator.cluster.store import Store
from penstock_operator.handlers import definitions, record_watch
from penstock_operator.handlers.backoff import Backoffs
from penstock_operator.handlers.work_queue import WorkQueue

PAGE = 500  # objects of one answer to Kopf's first list of a kind
# All but what handlers/record_watch.py and handlers/spark_watches.py watch.
WATCHED = (
    kinds.STREAM_JOB,
    kinds.STREAM_SNAPSHOT,
    kinds.CLAIM,
    *(kind for kind in kinds.CHILDREN if kind not in record_watch.KINDS),
)


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the operator that handlers use.

    ``begin`` starts our own tasks and ``end`` ends them. ``stuck`` says what is late, empty when
    nothing is. ``served`` are those of our own kinds that the API server knows.
    """

    store: Store
    queue: WorkQueue
    begin: Callable[[], Awaitable[None]]
    end: Callable[[], Awaitable[None]]
    stuck: Callable[[], str]
    served: tuple[Kind, ...]


def handlers(parts: Parts) -> kopf.OperatorRegistry:
    """Register all handlers."""
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry, id="configure")
    def on_startup(settings: kopf.OperatorSettings, **_: Any) -> None:
        configure(settings)

    @kopf.on.startup(registry=registry, id="begin")
    async def on_begin(**_: Any) -> None:
        await parts.begin()

    @kopf.on.cleanup(registry=registry, id="end")
    async def on_cleanup(**_: Any) -> None:
        await parts.end()

    @kopf.on.login(registry=registry, id="login")
    def on_login(settings: kopf.OperatorSettings, **_: Any) -> kopf.ConnectionInfo:
        return login(settings)

    _probes(registry, parts)
    for kind in WATCHED:
        if kind in parts.served or kind not in definitions.OURS:
            _watch(registry, kind, parts)
    return registry


def _probes(registry: kopf.OperatorRegistry, parts: Parts) -> None:
    """Answer Kopf's liveness endpoint with counts, and with 500 when something is stuck."""

    @kopf.on.probe(registry=registry, id="stuck")
    def is_stuck(**_: Any) -> str:
        problem = parts.stuck()
        if problem:
            raise kopf.PermanentError(problem)
        return ""

    @kopf.on.probe(registry=registry, id="due")
    def due(**_: Any) -> int:
        return parts.queue.depth()

    @kopf.on.probe(registry=registry, id="objects")
    def objects(**given: Any) -> dict[str, int]:
        known: kopf.Index[str, None] = given["known_objects"]
        return {kind: len(known[kind]) for kind in known}


def _watch(registry: kopf.OperatorRegistry, kind: Kind, parts: Parts) -> None:
    place = place_of_kind(kind)

    # With an index Kopf calls no event handler before every kind is listed. Without it a decision
    # could miss children that are not listed yet, and create them a second time.
    @kopf.index(*place, registry=registry, id="known_objects")
    async def known_objects(**_: Any) -> dict[str, None]:
        return {kind.kind: None}

    @kopf.on.event(*place, registry=registry, id=f"watch-{kind.plural}-{kind.group}")
    async def on_event(event: Any, **_: Any) -> None:
        named = {"apiVersion": kind.api_version, "kind": kind.kind}
        change = parts.store.remove if event["type"] == "DELETED" else parts.store.put
        for key in change({**dict(event["object"]), **named}):
            parts.queue.add(key)


class NothingCompared(kopf.DiffBaseStorage):
    """Stores nothing to compare objects with: there are no handlers of changes here.

    For a comparison Kopf would copy the whole object three times per event. That is most of what an
    event costs.
    """

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Return nothing, so that nothing differs."""
        return kopf.BodyEssence({})

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        """Keep nothing."""
        return None

    def store(self, **_: Any) -> None:
        """Write nothing to the object."""


def configure(settings: kopf.OperatorSettings) -> None:
    """Change some of Kopf's defaults, each for the reason beside it."""
    settings.posting.enabled = False  # our own events count repetitions, and survive a restart
    settings.persistence.diffbase_storage = NothingCompared()
    settings.peering.standalone = True  # a Lease decides who leads, as usual in Kubernetes
    settings.scanning.disabled = True  # it needs rights to all namespaces and definitions
    settings.watching.server_timeout = 300  # then the next watch continues where this one ended
    settings.watching.connect_timeout = 10
    settings.watching.inactivity_timeout = WATCH_SILENT_S
    settings.watching.chunk_size = PAGE
    settings.networking.request_timeout = 60
    settings.networking.error_backoffs = Backoffs(random.random)
    # Each object with an event has a task, which ends after this time: thousands start at once.
    settings.queueing.idle_timeout = 1.0
    settings.execution.max_workers = 2  # threads for startup, login and probes; others need none
    for kind in kinds.CHILDREN:
        settings.watching.label_selectors[place_of_kind(kind)] = pod.LABEL_JOB


def place_of_kind(kind: Kind) -> tuple[str, str] | tuple[str, str, str]:
    """Return a kind as Kopf's decorators and settings need it."""
    return (kind.group, kind.version, kind.plural) if kind.group else (kind.version, kind.plural)
