"""Simulates the workers of one job: ready pods, and a leader that renews, commits and reports.

It writes the same objects as ``keeper/``, as often: the Lease every ``LEASE_RETRY_S``, ``-latest`` at
each commit, and ``-status`` after each commit and when it was not written for
``POD_STATUS_INTERVAL_S`` (see ``keeper.status_publisher``). The times are random, so jobs do not all
write at the same moment.
"""

import asyncio
import json
import random
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from bench.fleet.api import JOBS, SETS, Api, Object
from penstock.base.limits import ANNOUNCE_INTERVAL_S, LEASE_RETRY_S, POD_STATUS_INTERVAL_S
from penstock.base.values import replace
from penstock.contract import pod
from penstock.contract.codec import encode
from penstock.contract.ids import (
    Attempt,
    BlobName,
    Epoch,
    Incarnation,
    JobUid,
    Ordinal,
    SwapId,
    Term,
    Version,
)
from penstock.contract.latest import Latest, Leader, Retained, encode_latest
from penstock.contract.manifest import BlobRef
from penstock.contract.status import (
    CheckpointStatus,
    JobState,
    JobStatus,
    SinkStatus,
    StepStatus,
    WorkerStatus,
)
from penstock_operator.api import names

WORKERS = 2
RETAINED = 3
STEPS = ("lines", "words", "counts", "output")
LOOK_EVERY_S = 0.5
Do = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class Player:
    """The workers of job ``name``. ``events`` counts the writes by kind of object."""

    api: Api
    namespace: str
    name: str
    interval_s: float
    events: dict[str, int]
    uid: str = ""
    latest: Latest = field(default_factory=lambda: Latest(JobUid(""), SwapId("")))
    committed_us: int = 0
    told_at: float = 0.0

    async def begin(self) -> None:
        """Wait until the operator has created the job's objects. Then report ready, and commit."""
        path = f"{self._core}/configmaps/{pod.desired_name(self.name)}"
        workload = f"{SETS}/namespaces/{self.namespace}/statefulsets/{pod.workers_name(self.name)}"
        found = await self._there(workload)
        desired = json.loads((await self._there(path))["data"][pod.RECORD])
        await self._there(f"{self._core}/configmaps/{pod.status_name(self.name)}")
        self.uid = found["metadata"]["labels"][pod.LABEL_JOB_UID]
        seen = {"observedGeneration": found["metadata"]["generation"], "replicas": WORKERS}
        await self.api.merge(f"{workload}/status", {"status": seen})
        await asyncio.gather(*(self._pod(ordinal) for ordinal in range(WORKERS)))
        leader = Leader(Ordinal(0), Incarnation(str(uuid.uuid4())), "10.0.0.1:7070")
        self.latest = Latest(
            JobUid(self.uid),
            SwapId("first"),
            term=Term(1),
            leader=leader,
            attempt=Attempt(1),
            version=Version(1),
            proposed=Version(1),
            settled=Version(1),
            workers=WORKERS,
            run=desired["run"],
        )
        await self.commit()
        await self.tell()

    async def run(self, until: float) -> None:
        """Renew, commit and report until this time (monotonic seconds)."""
        await asyncio.gather(
            self._every(LEASE_RETRY_S, self.renew, until),
            self._every(self.interval_s, self._commit_and_tell, until),
            self._every(ANNOUNCE_INTERVAL_S, self._tell_if_due, until),
        )

    async def renew(self) -> None:
        """Renew the Lease."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
        spec = {"holderIdentity": f"{self.name}-0", "renewTime": moment}
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        await self._write("Lease", f"{path}/{pod.lease_name(self.name)}", {"spec": spec})

    async def commit(self) -> None:
        """Commit the next epoch."""
        epoch = Epoch(self.latest.epoch + 1)
        root = BlobRef(BlobName(f"{epoch}-1-{uuid.uuid4()}.root.json"), "0" * 64, 2048)
        kept = (*self.latest.retained, Retained(epoch, root))[-RETAINED:]
        self.latest = replace(
            self.latest,
            swap_id=SwapId(str(uuid.uuid4())),
            epoch=epoch,
            max_epoch=epoch,
            root=root,
            retained=kept,
            published_through=Epoch(epoch - 1),
        )
        self.committed_us = time.time_ns() // 1000
        await self._record("-latest", pod.latest_name(self.name), encode_latest(self.latest))

    async def stall(self) -> None:
        """Write into ``-latest`` that the leader waits. This must become a condition of the StreamJob."""
        self.latest = replace(self.latest, swap_id=SwapId("stall"), stalled="waits for a disk")
        await self._record("-latest", pod.latest_name(self.name), encode_latest(self.latest))

    async def tell(self) -> None:
        """Describe the job."""
        self.told_at = time.monotonic()
        await self._record("-status", pod.status_name(self.name), encode(self._status()))

    async def _tell_if_due(self) -> None:
        if time.monotonic() - self.told_at >= POD_STATUS_INTERVAL_S:
            await self.tell()

    async def _commit_and_tell(self) -> None:
        await self.commit()
        await self.tell()

    def _status(self) -> JobStatus:
        now_us, at = time.time_ns() // 1000, self.latest
        steps = tuple(StepStatus(s, WORKERS, now_us // 7, now_us // 9, busy=0.4) for s in STEPS)
        workers = tuple(
            WorkerStatus(n, "up", 7, 9, n == 0, pod=f"{self.uid}-{n}", silent_s=random.random()) for n in range(WORKERS)
        )
        done = CheckpointStatus(int(at.epoch), self.committed_us, 6903, 0.213, f"/p/{at.epoch}")
        return JobStatus(
            self.name,
            self.uid,
            JobState.RUNNING,
            now_us,
            WORKERS,
            int(at.term),
            int(at.attempt),
            int(at.version),
            published_through=int(at.published_through),
            workers=workers,
            steps=steps,
            checkpoint=done,
            sinks=(SinkStatus("output", "ExactlyOnce"),),
            listening_s=round(now_us / 1e6 % 1000, 1),
        )

    async def _record(self, what: str, name: str, data: bytes) -> None:
        marks = {"annotations": {pod.ANNOTATION_SWAP: str(uuid.uuid4())}}
        change = {"metadata": marks, "data": {pod.RECORD: data.decode()}}
        await self._write(what, f"{self._core}/configmaps/{name}", change)

    async def _write(self, what: str, path: str, change: Object) -> None:
        await self.api.merge(path, change)
        self.events[what] = self.events.get(what, 0) + 1

    async def _pod(self, ordinal: int) -> None:
        name = f"{pod.workers_name(self.name)}-{ordinal}"
        metadata = {"name": name, "labels": names.labels(self.name, self.uid)}
        containers = [{"name": each, "image": "example/penstock:1"} for each in (pod.KEEPER_CONTAINER, "engine")]
        made = {"metadata": metadata, "spec": {"containers": containers}}
        await self.api.create(f"{self._core}/pods", made)
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await self.api.merge(f"{self._core}/pods/{name}/status", {"status": ready})

    async def _there(self, path: str) -> Object:
        while True:
            try:
                return await self.api.get(path)
            except RuntimeError as error:
                if ": 404 " not in str(error):
                    raise
            await asyncio.sleep(LOOK_EVERY_S)

    async def _every(self, seconds: float, do: Do, until: float) -> None:
        """Repeat an action with an interval in seconds, beginning at a random time."""
        due = time.monotonic() + seconds * random.random()
        while due < until:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await do()
            due += seconds

    @property
    def _core(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}"

    @property
    def job_path(self) -> str:
        """Return the path of the StreamJob."""
        return f"{JOBS}/namespaces/{self.namespace}/streamjobs/{self.name}"
