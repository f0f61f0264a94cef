"""The workers of the operator's simulation: what a StatefulSet's pods make of ``-desired``.

The leader is a simplified model with the rules of the real one: one swap per step. It reads the
present ``-desired``. The checks of the operator compare with what it commits.
"""

import random
from dataclasses import dataclass
from functools import lru_cache

from penstock.base.values import replace
from penstock.contract import pod
from penstock.contract.codec import decode, encode
from penstock.contract.ids import Attempt, BlobName, Epoch, Incarnation, Ordinal, Term, Version
from penstock.contract.latest import (
    Answer,
    Desired,
    Latest,
    Leader,
    Retained,
    decode_latest,
    encode_latest,
)
from penstock.contract.manifest import BlobRef
from penstock.contract.schema import Plain
from penstock.contract.status import JobState, JobStatus, Load
from penstock_operator.api.plain import Object, object_at, text_at, texts_at, whole_at
from sim.operator_world.api_server import FakeApi, job_of

JOB = "wordcount"
RETAIN = 2
BAD_IMAGE = "bad"
WINDOW_S = 1.0
WINDOWS_KEPT = 80


def root_of(epoch: int) -> BlobRef:
    """Name the manifest of an epoch."""
    return BlobRef(BlobName(f"1-{epoch}-x-0.root.json"), "00", 1)


@lru_cache(64)
def read_latest(text: str) -> Latest:
    """Decode a record. It is needed after every step, so results are cached."""
    return decode_latest(text.encode())


@lru_cache(64)
def read_desired(text: str) -> Desired:
    """Decode what is wanted."""
    return decode(Desired, text.encode())


@dataclass(slots=True)
class Workers:
    """The controller of the StatefulSet, the kubelets and the leader.

    - ``finishes``: the input may end.
    - ``calm``: only the first epoch of a run is committed, so that the world comes to rest.
    - ``load``: the work for a step, in workers.
    - ``meter``: since when, under which attempt and version it is measured, and each window's share.
    - ``room``: the number of pods that find a node.
    """

    api: FakeApi
    rng: random.Random
    finishes: bool = False
    fails: bool = True
    calm: bool = False
    load: float | None = None
    room: int = 99
    meter: tuple[float, tuple[int, int], tuple[float, ...]] = (0.0, (0, 0), ())

    def step(self, now: float) -> None:
        """Do one thing that is due, chosen at random."""
        self.rng.choice((self._controller, self._kubelet, self._leader, self._leader))(now)

    def settle(self, now: float) -> bool:
        """Do everything that is due, without faults; True if something was done."""
        before = self.api.count
        for act in (self._controller, self._kubelet, self._leader):
            act(now)
        while self.api.collect(now):
            pass
        return self.api.count != before

    def pods(self) -> dict[int, Object]:
        """Return the pods that exist, by ordinal."""
        found = {}
        for (kind, name), plain in self.api.objects.items():
            if kind == "Pod":
                found[int(name.rpartition("-")[2])] = plain
        return dict(sorted(found.items()))

    def latest(self) -> Latest | None:
        """Return the present -latest."""
        found = self.api.objects.get(("ConfigMap", pod.latest_name(JOB)))
        if found is None:
            return None
        return read_latest(text_at(found, "data", pod.RECORD))

    # --- Kubernetes -------------------------------------------------------------------------

    def _controller(self, now: float) -> None:
        found = self.api.get("StatefulSet", pod.workers_name(JOB))
        found = found if job_of(found) else None  # it is nobody's whose workers these are
        replicas = whole_at(found, "spec", "replicas")
        pods = self.pods()
        generation = whole_at(found, "metadata", "generation")
        if found is not None and whole_at(found, "status", "observedGeneration") != generation:
            self.api.put({**found, "status": {"observedGeneration": generation}})
        for ordinal, plain in pods.items():
            if ordinal >= replicas and not text_at(plain, "metadata", "deletionTimestamp"):
                self.api.delete(("Pod", f"{pod.workers_name(JOB)}-{ordinal}"), now=now)
        if found is None:
            return
        for ordinal in range(replicas):
            if ordinal not in pods:
                self.api.create(self._pod(found, ordinal))

    def _pod(self, found: Object, ordinal: int) -> Object:
        template = object_at(found, "spec", "template", "metadata")
        metadata: Object = {
            "name": f"{pod.workers_name(JOB)}-{ordinal}",
            "labels": dict(texts_at(template, "labels")),
            "annotations": dict(texts_at(template, "annotations")),
            "finalizers": ["kubelet"],
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "StatefulSet",
                    "name": text_at(found, "metadata", "name"),
                    "uid": text_at(found, "metadata", "uid"),
                    "controller": True,
                }
            ],
        }
        image = text_at(found, "spec", "template", "spec", "containers")
        containers = object_at(found, "spec", "template", "spec").get("containers")
        first = containers[0] if isinstance(containers, list) and containers else None
        image = text_at(first, "image")
        return {
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"image": image},
            "status": {"phase": "Pending", "conditions": []},
        }

    def _kubelet(self, now: float) -> None:
        del now
        for key, plain in sorted(self.api.objects.items()):
            if key[0] == "Job" and not plain.get("status"):
                self.api.put({**plain, "status": {"succeeded": 1}})
        for ordinal, plain in self.pods().items():
            key = ("Pod", f"{pod.workers_name(JOB)}-{ordinal}")
            if text_at(plain, "metadata", "deletionTimestamp"):
                self.api.finish_pod(key)
            elif text_at(plain, "status", "phase") == "Pending" and ordinal < self.room:
                self.api.put({**plain, "status": self._started(plain)})

    def _started(self, plain: Object) -> Object:
        if text_at(plain, "spec", "image") == BAD_IMAGE:
            waiting: Plain = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
            return {
                "phase": "Pending",
                "containerStatuses": [{"name": pod.KEEPER_CONTAINER, "state": waiting}],
            }
        return {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}

    # --- the leader --------------------------------------------------------------------------

    def _live(self) -> list[int]:
        return [
            o
            for o, p in self.pods().items()
            if text_at(p, "status", "phase") == "Running" and not text_at(p, "metadata", "deletionTimestamp")
        ]

    def _leader(self, now: float) -> None:
        live = self._live()
        found = self.api.get("ConfigMap", pod.desired_name(JOB))
        record = self.api.get("ConfigMap", pod.latest_name(JOB))
        latest = self.latest()
        if not live or found is None or record is None or latest is None:
            return
        runs = {job_of(p) for p in self.pods().values()}
        if runs != {latest.job_uid} or job_of(found) != latest.job_uid:
            return
        desired = read_desired(text_at(found, "data", pod.RECORD))
        new = self._swap(latest, desired, live)
        if new is not None and new != latest:
            self.api.put({**record, "data": {pod.RECORD: encode_latest(new).decode()}})
            self._note()
        if self.load is not None:
            self._tell(new or latest, self.load, now)

    def speak(self, now: float) -> None:
        """Let the leader of an autoscaled job report how busy the workers are."""
        if self.load is not None:
            self._leader(now)

    def _tell(self, at: Latest, load: float, now: float) -> None:
        """Return how busy the workers were, as the leader of an autoscaled job measures it."""
        since, under, shares = self.meter
        if (at.attempt, at.version) != under or at.settled != at.version:
            since, under, shares = now, (at.attempt, at.version), ()
        share = round(min(1.0, load / max(1, at.workers)), 3)
        full = int((now - since) / WINDOW_S)
        shares = (*shares, *[share] * min(full, WINDOWS_KEPT))[-WINDOWS_KEPT:]
        self.meter = (since + full * WINDOW_S, under, shares)
        found = self.api.get("ConfigMap", pod.status_name(JOB))
        if found is None or at.closed():
            return
        told = JobStatus(
            JOB,
            at.job_uid,
            JobState.RUNNING,
            int(now * 1e6),
            attempt=at.attempt,
            version=at.version,
            load=Load(WINDOW_S, shares, (0.0,) * len(shares), "counts") if shares else None,
        )
        self.api.put({**found, "data": {pod.RECORD: encode(told).decode()}})

    def _note(self) -> None:
        found = self.api.get("ConfigMap", pod.status_name(JOB))
        if self.load is None and found is not None and self.rng.random() < 0.2:
            self.api.put({**found, "data": {"note": str(self.api.count)}})

    def _swap(self, at: Latest, desired: Desired, live: list[int]) -> Latest | None:
        asked = {r.id for r in desired.requests}
        at = replace(at, answers=tuple(a for a in at.answers if a.request in asked))
        if at.closed():
            return self._closed(at, desired)
        leaves = at.leader is not None and at.leader.ordinal >= max(desired.workers, at.workers)
        if at.leader is None or at.leader.ordinal not in live or leaves:
            leader = Leader(Ordinal(live[0]), Incarnation("x"), "x:1")
            return replace(at, leader=leader, term=Term(at.term + 1))
        if desired.restore is not None and desired.restore.nonce != at.restored:
            if desired.restore.empty:
                nonce = desired.restore.nonce
                return replace(at, restored=nonce, epoch=Epoch(0), root=None, replayed=True)
            epoch = Epoch(at.max_epoch + 1)
            kept = Retained(epoch, root_of(epoch))
            return replace(
                at,
                restored=desired.restore.nonce,
                epoch=epoch,
                max_epoch=epoch,
                root=kept.root,
                retained=(kept,),
            )
        workers = at.workers or desired.workers
        if not set(range(workers)) <= set(live):
            return at
        if at.attempt == 0:
            return replace(
                at,
                attempt=Attempt(1),
                version=Version(1),
                settled=Version(1),
                workers=workers,
            )
        return self._running(at, desired, live)

    def _closed(self, at: Latest, desired: Desired) -> Latest:
        again = desired.restore is not None and desired.restore.nonce != at.restored
        if desired.run != at.run and (not at.finished or again):
            return replace(at, run=desired.run, stopped=False, failure=None, finished=False, stalled=None)
        given = {a.request for a in at.answers}
        left = [r for r in desired.requests if r.id not in given]
        new = tuple(Answer(r.id, r.kind == "stop", "closed") for r in left)
        return replace(at, answers=at.answers + new)

    def _running(self, at: Latest, desired: Desired, live: list[int]) -> Latest:
        if at.settled != at.version:
            return replace(at, settled=at.version)
        given = {a.request for a in at.answers}
        left = [r for r in desired.requests if r.id not in given]
        if desired.workers != at.workers and set(range(desired.workers)) <= set(live):
            moved = replace(at, version=Version(at.version + 1), workers=desired.workers)
            return self._epoch(moved)
        if left:
            done = self._epoch(at)
            ok = not self.fails or self.rng.random() < 0.8
            answer = Answer(left[0].id, ok, f"/s/{left[0].argument}" if ok else "no space")
            stops = ok and left[0].kind == "stop"
            run = desired.run if stops else at.run
            return replace(done, answers=(*at.answers, answer), stopped=stops, run=run)
        dice = self.rng.random()
        if self.fails and dice < 0.01:
            return replace(at, failure="JobFailed: row 7", run=desired.run)
        if self.finishes and dice < 0.02:
            return replace(self._epoch(at), finished=True, run=desired.run)
        if self.fails and dice < 0.1:
            return replace(at, attempt=Attempt(at.attempt + 1))
        if self.calm and at.epoch > int(desired.run.split("-")[1]):
            return at
        return self._epoch(at)

    def _epoch(self, at: Latest) -> Latest:
        epoch = Epoch(at.max_epoch + 1)
        kept = (*at.retained, Retained(epoch, root_of(epoch)))[-RETAIN:]
        return replace(
            at,
            epoch=epoch,
            max_epoch=epoch,
            root=root_of(epoch),
            retained=kept,
            published_through=epoch,
        )
