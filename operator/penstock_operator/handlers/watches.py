"""Kopf's watches: every event goes into the store, and the jobs that it concerns into the queue.

Low-level handlers only: no timers, daemons or delete handlers, which would put a finalizer on
every object, and nothing is kept in annotations. What is missed while the operator is down shows
in the first listing.
"""

import random
from typing import Any

import kopf

from penstock.contract import pod
from penstock_operator.api import kinds
from penstock_operator.api.kinds import Kind
from penstock_operator.cluster.store import Store
from penstock_operator.handlers import records
from penstock_operator.handlers.backoff import Backoffs
from penstock_operator.handlers.work_queue import WorkQueue

PAGE = 500  # objects of one answer to Kopf's first list of a kind
# All but what handlers/records.py watches.
WATCHED = (
    kinds.STREAM_JOB,
    kinds.STREAM_SNAPSHOT,
    kinds.CLAIM,
    *(kind for kind in kinds.CHILDREN if kind not in records.KINDS),
)


def register(
    registry: kopf.OperatorRegistry, store: Store, queue: WorkQueue, spark: tuple[Kind, ...]
) -> None:
    """Have all kinds watched; ``spark`` are the flavours of SparkApplication that are served."""
    for kind in (*WATCHED, *spark):
        _watch(registry, kind, store, queue)


def configure(settings: kopf.OperatorSettings) -> None:
    """Set what our use of Kopf needs: narrow watches that end and begin again, and no events."""
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330  # a frozen connection is left after so long
    settings.watching.connect_timeout = 10
    settings.watching.chunk_size = PAGE
    settings.networking.request_timeout = 60
    settings.networking.error_backoffs = Backoffs(random.random)
    # A task for each object that had an event ends after so long: thousands begin at once.
    settings.queueing.idle_timeout = 1.0
    settings.execution.max_workers = 2
    settings.scanning.disabled = True
    for kind in (*kinds.CHILDREN, kinds.SPARK_KUBEFLOW, kinds.SPARK_APACHE):
        settings.watching.label_selectors[_place(kind)] = pod.LABEL_JOB


def _watch(registry: kopf.OperatorRegistry, kind: Kind, store: Store, queue: WorkQueue) -> None:
    @kopf.on.event(*_place(kind), registry=registry, id=f"watch-{kind.plural}-{kind.group}")
    async def see(event: Any, **_: Any) -> None:
        plain = {
            **dict(event["object"]),
            "apiVersion": kind.api_version,
            "kind": kind.kind,
        }
        change = store.remove if event["type"] == "DELETED" else store.put
        for key in change(plain):
            queue.add(key)


def _place(kind: Kind) -> tuple[str, str] | tuple[str, str, str]:
    return (kind.group, kind.version, kind.plural) if kind.group else (kind.version, kind.plural)
