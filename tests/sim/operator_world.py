"""The operator's simulation: two operators on old views, random users, faults; then peace.

An operator is a generator that yields before every read and write, so anything may happen in
between, and a crash is an operator that is never resumed. Every write is checked as it happens.
"""

import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from penstock.contract import pod
from penstock.contract.fields import Plain
from penstock.contract.latest import Latest
from penstock.contract.streamjob_status_fields import status_plain
from penstock.contract.streamsnapshot_fields import snapshot_status_plain
from penstock_operator.api import names, views
from penstock_operator.api.observed import Observed
from penstock_operator.api.plain import Object, object_at, text_at, texts_at, whole_at
from penstock_operator.reconcile import decision as act
from penstock_operator.reconcile.assemble import Moment, assemble
from penstock_operator.reconcile.decide import decide
from penstock_operator.resources import records
from penstock_operator.resources.target import Owner
from tests.sim.operator_api import ConflictError, FakeApi, Key, job_of
from tests.sim.operator_workers import BAD_IMAGE, JOB, Workers

Decide = Callable[[Observed], act.Decision]
SET = ("StatefulSet", pod.workers_name(JOB))
DESIRED = ("ConfigMap", pod.desired_name(JOB))
LATEST = ("ConfigMap", pod.latest_name(JOB))
START_S = 1_700_000_000.0


class ViolationError(AssertionError):
    """Something happened that never may."""


def first_spec(rng: random.Random) -> Object:
    """Make the spec of a small job."""
    return {
        "image": "v1",
        "job": {"entrypoint": "jobs:count"},
        "replicas": rng.randint(1, 4),
        "checkpoint": {"volume": {"claimName": "shared"}},
        "upgrade": {"savepointDeadline": "60s", "stableDeadline": "120s"},
    }


@dataclass(slots=True)
class Truth:
    """What the checks remember of the job that lives now, and of all before it."""

    uid: str = ""
    epoch: int = 0
    began: bool = False
    taken: bool = False  # a user removed -latest: its return is nobody's but a restore's
    committed: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class World:
    """One run. ``decide`` is what is tested; a mutant gives another."""

    seed: int
    decide: Decide = decide
    live_order: tuple[Key, ...] = (SET, DESIRED, LATEST)

    rng: random.Random = field(init=False)
    api: FakeApi = field(default_factory=FakeApi)
    workers: Workers = field(init=False)
    now: float = START_S
    truth: Truth = field(default_factory=Truth)
    jobs: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    caches: list[dict[Key, Object]] = field(default_factory=list)
    purged: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Make the first job, and the claim of its checkpoints."""
        self.rng = random.Random(self.seed)
        self.workers = Workers(self.api, self.rng, finishes=self.rng.random() < 0.2)
        claim: Object = {"accessModes": ["ReadWriteMany"]}
        meta: Object = {"name": "shared", "labels": {}}
        self.api.create({"kind": "PersistentVolumeClaim", "metadata": meta, "spec": claim})
        self._new_job()
        self.caches = [self.api.listed(), self.api.listed()]

    # --- running ------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Run with faults for so many steps, then in peace until nothing changes any more."""
        operators = [self._operator(0), self._operator(1)]
        for _ in range(steps):
            self.now += self.rng.choice((0.1, 0.5, 2.0))
            dice = self.rng.random()
            if dice < 0.45:
                which = self.rng.randrange(2)
                if self.rng.random() < 0.04:
                    operators[which] = self._operator(which)  # killed, and started again
                next(operators[which])
            elif dice < 0.90:
                self.workers.step(self.now)
                self._look()
            elif dice < 0.94:
                self._fault()
            elif dice < 0.97:
                self.api.collect(self.now)
            else:
                self._user()
            self._check_always()
        self._make_peace()

    def _make_peace(self) -> None:
        """No more faults: all must come to rest where the user wants it."""
        self.workers.fails = False
        self.workers.finishes = False
        job = self.api.get("StreamJob", JOB)
        if job is not None and text_at(job, "metadata", "deletionTimestamp") == "":
            spec = object_at(job, "spec")
            self.api.put(
                {**job, "spec": {**spec, "image": "v9", "replicas": self.rng.randint(1, 4)}}
            )
        quiet = 0
        for _ in range(120):
            self.now += 120.0
            before = self._meaning()
            operator = self._operator(0)
            idles = 0
            while idles < 3:
                idles += next(operator) == "idle"
                self.caches[0] = self.api.listed()
            for _ in range(3):
                self.workers.settle(self.now)
                self._look()
            self._check_always()
            quiet = quiet + 1 if self._meaning() == before else 0
            if quiet >= 3:
                return self._check_rest()
        raise ViolationError(f"seed {self.seed}: never comes to rest")

    def _meaning(self) -> str:
        """Describe everything but epochs and versions, which rise for ever."""
        at = self.workers.latest()
        parts = [
            (key, text_at(o, "metadata", "annotations", names.ANNOTATION_APPLIED))
            for key, o in sorted(self.api.objects.items())
            if records.epoch_of(JOB, key[1]) is None
        ]
        shown = None if at is None else (at.workers, at.version, at.closed(), at.run)
        found = self.api.get("StreamJob", JOB)
        states = [
            text_at(o, "status", "state")
            for k, o in sorted(self.api.objects.items())
            if k[0] == "StreamSnapshot"
        ]
        return json.dumps([parts, str(shown), text_at(found, "status", "state"), states])

    def _operator(self, which: int) -> Iterator[str]:
        """One operator's endless loop over its only key."""
        while True:
            self._refresh(which)
            yield "idle"
            seen = self._observe(self.caches[which], refresh=self.rng.random() < 0.05)
            if seen is None:
                continue
            first = self.decide(seen)
            if first.actions or first.status is not None:
                live = dict(self.caches[which])
                for key in self.live_order:
                    yield f"reads {key}"
                    found = self.api.get(*key)
                    live.pop(key, None)
                    if found is not None:
                        live[key] = found
                seen = self._observe(live, refresh=False)
                if seen is None:
                    continue
                yield from self._perform(self.decide(seen), seen)

    def _refresh(self, which: int) -> None:
        """A watch catches up, wholly or for some objects only; or it is silent."""
        dice = self.rng.random()
        new = self.api.listed()
        if dice < 0.5:
            self.caches[which] = new
        elif dice < 0.8:
            old = self.caches[which]
            for key in sorted(new.keys() | old.keys()):
                if self.rng.random() < 0.5:
                    old.pop(key, None)
                    if key in new:
                        old[key] = new[key]

    def _observe(self, objects: dict[Key, Object], *, refresh: bool) -> Observed | None:
        job = objects.get(("StreamJob", JOB))
        if job is None:
            return None
        moment = Moment(self.now, refresh=refresh)
        return assemble(views.job_view(job), objects.values(), moment)

    def _perform(self, decision: act.Decision, seen: Observed) -> Iterator[str]:
        """Do it, one call at a time; a failure ends it, and so may anything at any time."""
        try:
            if decision.status_first:
                yield "status"
                self._write_status(decision, seen)
            for action in decision.actions:
                yield str(type(action).__name__)
                if self.rng.random() < 0.02:
                    return  # refused for no reason of ours: 429, 500
                self._do(action, seen)
                if self.rng.random() < 0.02:
                    return  # done, but the reply was lost
            if not decision.status_first:
                yield "status"
                self._write_status(decision, seen)
        except ConflictError:
            return

    def _write_status(self, decision: act.Decision, seen: Observed) -> None:
        job = self.api.get("StreamJob", JOB)
        if decision.status is None or job is None:
            return
        if text_at(job, "metadata", "uid") != seen.job.uid:
            raise ConflictError("another job")
        plain = dict(status_plain(decision.status))
        self.api.put({**job, "status": plain}, version=seen.job.version)

    def _do(self, action: act.Action, seen: Observed) -> None:
        self.seen[type(action).__name__] = self.seen.get(type(action).__name__, 0) + 1
        owner = Owner(JOB, "default", seen.job.uid)
        match action:
            case act.Apply(manifest, _, version):
                self._check_template(manifest)
                self.api.apply(manifest, version=version)
            case act.Create(manifest):
                self._check_create(manifest)
                try:
                    self.api.create(manifest)
                except ConflictError:
                    return
            case act.Scale(replicas, turn, version):
                self._scale(replicas, turn, version)
            case act.WriteDesired(value, turn, latest_uid, version):
                manifest = records.desired(owner, value, turn, latest_uid)
                if not version:
                    self.api.create(manifest)
                else:
                    self._check_answers(value.requests)
                    old = self.api.get(*DESIRED)
                    if old is None:
                        raise ConflictError("gone")
                    both = {**object_at(old, "metadata"), **object_at(manifest, "metadata")}
                    self.api.put({**old, **manifest, "metadata": both}, version=version)
            case act.Archive(job_uid, uid, version):
                self._archive(owner, (job_uid, uid, version))
            case act.Delete(kind, name, uid, now):
                self._check_delete((kind, name), uid, now=now)
                self.api.delete((kind, name), uid=uid, now=self.now)
            case act.MakeTrust():
                meta: Object = {
                    "name": pod.trust_name(JOB),
                    "labels": dict(names.labels(JOB, seen.job.uid)),
                    "ownerReferences": [{"uid": seen.job.uid}],
                }
                try:
                    self.api.create({"kind": "Secret", "metadata": meta})
                except ConflictError:
                    return
            case act.SetFinalizer(present, _, version):
                self._finalizer(seen, version, present=present)
            case act.WriteSnapshotStatus(name, status):
                found = self.api.get("StreamSnapshot", name)
                if found is not None:
                    self.api.put({**found, "status": dict(snapshot_status_plain(status))})

    def _scale(self, replicas: int, turn: int, version: str) -> None:
        old = self.api.get(*SET)
        if old is None or text_at(old, "metadata", "resourceVersion") != version:
            raise ConflictError("set changed")
        self._check_scale(replicas, whole_at(old, "spec", "replicas"))
        metadata = object_at(old, "metadata")
        marks = {**texts_at(old, "metadata", "annotations"), names.ANNOTATION_TURN: str(turn)}
        spec = {**object_at(old, "spec"), "replicas": replicas}
        self.api.put({**old, "metadata": {**metadata, "annotations": dict(marks)}, "spec": spec})

    def _archive(self, owner: Owner, what: tuple[str, str, str]) -> None:
        job_uid, uid, version = what
        found = self.api.get(*LATEST)
        if found is None or text_at(found, "metadata", "resourceVersion") != version:
            raise ConflictError("latest changed")
        with suppress(ConflictError):  # made by an earlier try
            self.api.create(records.archive(owner, found, job_uid))
        self.api.delete(LATEST, uid=uid)

    def _finalizer(self, seen: Observed, version: str, *, present: bool) -> None:
        job = self.api.get("StreamJob", JOB)
        if job is None:
            return
        metadata: Object = {
            **object_at(job, "metadata"),
            "finalizers": [names.FINALIZER] if present else [],
        }
        if text_at(metadata, "uid") != seen.job.uid:
            raise ConflictError("another job")
        if metadata.get("deletionTimestamp") and present:
            raise ConflictError("no new finalizer on what is being deleted")
        self.api.put({**job, "metadata": metadata}, version=version)

    # --- users and faults ----------------------------------------------------------------------

    def _new_job(self) -> None:
        self.jobs += 1
        meta: Object = {"name": JOB, "namespace": "default", "labels": {}}
        job: Object = {"kind": "StreamJob", "metadata": meta, "spec": first_spec(self.rng)}
        made = self.api.create(job, uid=f"job{self.jobs:04d}-{self.seed}")
        self.truth = Truth(text_at(made, "metadata", "uid"), committed=self.truth.committed)

    def _user(self) -> None:
        job = self.api.get("StreamJob", JOB)
        if job is None:
            if self.rng.random() < 0.5:
                self._new_job()
            return
        spec = object_at(job, "spec")
        change: tuple[str, Plain] = self.rng.choice(
            (
                *(("replicas", self.rng.randint(1, 4)) for _ in range(4)),
                ("suspend", spec.get("suspend") is not True),
                ("image", self.rng.choice(("v1", "v2", "v3", BAD_IMAGE))),
                ("image", "v4"),
                ("restartNonce", self.rng.randint(1, 99)),
                ("replicas", 0),  # CEL would refuse it; a bad spec all the same
                ("upgrade", {"mode": self.rng.choice(("Savepoint", "LastCheckpoint"))}),
                ("upgrade", {"rollback": True, "stableDeadline": "30s"}),
                ("deletionPolicy", self.rng.choice(("Retain", "Savepoint", "Purge"))),
                (
                    "restore",
                    {"nonce": str(self.rng.randint(1, 9)), "path": "default/a/savepoints/b"},
                ),
                ("delete", None),
                ("snapshot", None),
                ("snapshot", None),
            )
        )
        self.seen[f"user {change[0]}"] = self.seen.get(f"user {change[0]}", 0) + 1
        if change[0] == "delete":
            self.api.delete(("StreamJob", JOB), now=self.now)
        elif change[0] == "snapshot":
            self._new_snapshot()
        elif not text_at(job, "metadata", "deletionTimestamp"):
            self.api.put({**job, "spec": {**spec, change[0]: change[1]}})

    def _new_snapshot(self) -> None:
        meta: Object = {"name": f"snap{self.api.count}", "creationTimestamp": ""}
        spec: Object = {
            "jobRef": JOB,
            "type": self.rng.choice(("Savepoint", "Checkpoint")),
            "retries": 1,
            "deadline": "300s",
        }
        self.api.create({"kind": "StreamSnapshot", "metadata": meta, "spec": spec})

    def _fault(self) -> None:
        """A pod dies, or somebody removes or changes an object that is not theirs."""
        keys = sorted(self.api.objects)
        pods = [k for k in keys if k[0] == "Pod"]
        others = [
            k
            for k in keys
            if k[0] in {"Service", "Role", "Lease", "NetworkPolicy", "Secret"} or k == DESIRED
        ]
        if pods and self.rng.random() < 0.7:
            self.api.delete(self.rng.choice(pods), now=self.now)
        elif others:
            self.api.delete(self.rng.choice(others), now=self.now)

    # --- what never may happen -----------------------------------------------------------------

    def _fail(self, text: str) -> None:
        raise ViolationError(f"seed {self.seed}: {text}")

    def _look(self) -> None:
        """Remember what is committed."""
        at = self.workers.latest()
        if at is not None:
            known = self.truth.committed.get(at.job_uid, 0)
            self.truth.committed[at.job_uid] = max(known, int(at.max_epoch))

    def _check_always(self) -> None:
        live = self.workers.pods()
        specs = {
            texts_at(p, "metadata", "annotations").get(names.ANNOTATION_DIGEST)
            for p in live.values()
        }
        if len(specs) > 1:
            self._fail("workers of two specs at once")
        if len({job_of(p) for p in live.values()}) > 1:
            self._fail("workers of two jobs at once")

    def _check_template(self, manifest: Object) -> None:
        if text_at(manifest, "kind") != "StatefulSet":
            return
        old = self.api.objects.get(SET)
        before = texts_at(old, "metadata", "annotations").get(names.ANNOTATION_DIGEST)
        after = texts_at(manifest, "metadata", "annotations").get(names.ANNOTATION_DIGEST)
        if old is not None and before == after:
            self._check_scale(
                whole_at(manifest, "spec", "replicas"), whole_at(old, "spec", "replicas")
            )

    def _check_scale(self, replicas: int, before: int) -> None:
        at = self.workers.latest()
        if at is None or replicas == 0 or at.closed() or replicas >= before:
            return
        leader = 0 if at.leader is None else at.leader.ordinal
        if replicas < at.workers or at.settled != at.version or replicas <= leader:
            self._fail(
                f"scaled to {replicas} while {at.workers} workers hold state "
                f"(version {at.version}, settled {at.settled}, leader {leader})"
            )

    def _check_create(self, manifest: Object) -> None:
        key = (text_at(manifest, "kind"), text_at(manifest, "metadata", "name"))
        if key != LATEST or key in self.api.objects:
            return
        uid = job_of(manifest)
        if self.truth.committed.get(uid, 0) > 0:
            self._fail(f"-latest of {uid} is created anew after epoch {self.truth.committed[uid]}")

    def _check_delete(self, key: Key, uid: str, *, now: bool) -> None:
        found = self.api.objects.get(key)
        if found is None or text_at(found, "metadata", "uid") != uid:
            return
        if key == LATEST:
            job = self.api.objects.get(("StreamJob", JOB))
            purged = text_at(job, "spec", "deletionPolicy") == "Purge"
            mine = job_of(found) == text_at(job, "metadata", "uid")
            if not (purged and mine and text_at(job, "metadata", "deletionTimestamp")):
                self._fail("-latest is deleted although nobody asked for a purge")
            if self.workers.pods():
                self._fail("-latest is deleted under running workers")
            self.purged.add(job_of(found))
        if key[0] == "Pod" and now:
            self._fail("a pod is ended by force although its worker is not lost")

    def _check_answers(self, wanted: tuple[object, ...]) -> None:
        """An answered request may go only when its snapshot's status has the answer."""
        at = self.workers.latest()
        kept = {getattr(r, "id", "") for r in wanted}
        for answer in () if at is None else at.answers:
            if answer.ok and answer.request.startswith("snap-") and answer.request not in kept:
                uid = answer.request.removeprefix("snap-").rpartition("-")[0]
                for key, found in self.api.objects.items():
                    if key[0] == "StreamSnapshot" and text_at(found, "metadata", "uid") == uid:
                        state = text_at(found, "status", "state")
                        if state not in {"Completed", "Failed"}:
                            self._fail(f"the answer to {answer.request} is thrown away")

    # --- where it must end ---------------------------------------------------------------------

    def _check_rest(self) -> None:
        job = self.api.get("StreamJob", JOB)
        at = self.workers.latest()
        for uid, epoch in self.truth.committed.items():
            self._check_kept(uid, epoch, at)
        if job is None:
            return
        if text_at(job, "metadata", "deletionTimestamp"):
            self._fail("a deletion hangs")
        state = text_at(job, "status", "state")
        spec = object_at(job, "spec")
        pods = self.workers.pods()
        if whole_at(job, "status", "observedGeneration") != whole_at(job, "metadata", "generation"):
            self._fail("the newest generation is not observed")
        if at is None:
            self._fail("no -latest")
            return
        if spec.get("suspend") or at.finished:
            if pods:
                self._fail(f"{state} with {len(pods)} pods")
        elif at.failure is None and (len(pods), at.workers) != (spec["replicas"],) * 2:
            self._fail(
                f"{len(pods)} pods, {at.workers} workers, {spec['replicas']} wanted, {state}"
            )
        elif at.failure is None and state != "Running":
            self._fail(f"rests in state {state}")
        self._check_whole(job)

    def _check_kept(self, uid: str, epoch: int, at: Latest | None) -> None:
        if at is not None and at.job_uid == uid:
            if at.max_epoch < epoch:
                self._fail(f"epoch {epoch} of {uid} is lost: -latest knows {at.max_epoch}")
            return
        purged = not any(
            k[1].startswith(names.archive_name(JOB, "")) and job_of(o) == uid
            for k, o in self.api.objects.items()
        )
        if epoch > 0 and purged and uid not in self.purged:
            self._fail(f"nothing is left of {uid}, which committed epoch {epoch}")

    def _check_whole(self, job: Object) -> None:
        uid = text_at(job, "metadata", "uid")
        for kind in ("Service", "Role", "RoleBinding", "NetworkPolicy", "PodDisruptionBudget"):
            found = [k for k, o in self.api.objects.items() if k[0] == kind and job_of(o) == uid]
            if not found:
                self._fail(f"no {kind}")
        retain = object_at(job, "spec").get("deletionPolicy", "Retain") == "Retain"
        if retain and object_at(job, "metadata").get("finalizers"):
            self._fail("a finalizer although nothing waits for it")
        for (kind, name), plain in self.api.objects.items():
            state = text_at(plain, "status", "state")
            if kind == "StreamSnapshot" and state not in {"Completed", "Failed"}:
                self._fail(f"{name} is {state} for ever")
