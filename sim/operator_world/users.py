"""The users of the operator's simulation, who change and break things at random."""

import random
from dataclasses import dataclass, field

from penstock.contract import pod
from penstock.contract.schema import Plain
from penstock_operator.api import names
from penstock_operator.api.plain import Object, object_at, text_at, whole_at
from sim.operator_world.api_server import FakeApi, Key
from sim.operator_world.operator_invariants import LATEST, SET
from sim.operator_world.pods_and_workers import BAD_IMAGE, JOB, Workers

HABITS = (
    "replicas",
    "suspend",
    "image",
    "restartNonce",
    "upgrade",
    "deletionPolicy",
    "restore",
    "delete",
    "snapshot",
    "forget",
)
LOADS = (0.2, 0.9, 1.8, 3.3, 5.0, 9.0)
AUTOSCALED_HABITS = ("bounds", "load", "hpa", "replicas")
DESIRED = ("ConfigMap", pod.desired_name(JOB))
# Names of foreign objects. No StatefulSet with workers is deleted to make room for one.
NAMES = (
    ("ConfigMap", pod.epoch_name(JOB, 9999)),
    ("Lease", pod.lease_name(JOB)),
    ("NetworkPolicy", pod.workers_name(JOB)),
    ("Role", names.keeper_account(JOB)),
    ("Secret", pod.trust_name(JOB)),
    ("Service", pod.service_name(JOB)),
    ("StatefulSet", pod.workers_name(JOB)),
)


def first_spec(rng: random.Random, *, autoscaled: bool) -> Object:
    """Make the spec of a small job."""
    spec: Object = {
        "image": "v1",
        "job": {"entrypoint": "jobs:count"},
        "replicas": rng.randint(1, 4),
        "checkpoint": {"volume": {"claimName": "shared"}},
        "upgrade": {"savepointDeadline": "60s", "stableDeadline": "120s"},
    }
    return {**spec, "autoscaling": some_bounds(rng)} if autoscaled else spec


HPA_ENTRY: Object = {
    "manager": "kube-controller-manager",
    "subresource": "scale",
    "fieldsV1": {"f:spec": {"f:replicas": {}}},
}


def some_bounds(rng: random.Random) -> Object:
    """Make bounds of an autoscaler with a short cooldown: runs are short, too."""
    least = rng.randint(1, 3)
    most = least + rng.choice((0, 2, 4, 7))
    return {"minReplicas": least, "maxReplicas": most, "cooldown": "3s"}


@dataclass(slots=True)
class Users:
    """The users. ``seed`` is a part of uids; ``seen`` counts what they did.

    The users of a run have only some ``habits``, or all of them. Things that are rare among all
    habits are therefore common in some runs, also together with other rare things.
    """

    seed: int
    rng: random.Random
    api: FakeApi
    workers: Workers
    seen: dict[str, int]
    now: float = 0.0
    jobs: int = 0
    habits: tuple[str, ...] = ()
    autoscaled: bool = False
    taken: Object | None = None  # a deleted -latest, which somebody creates again in the end
    meets_strangers: bool = False
    strangers: dict[Key, Object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Choose the habits of this run."""
        few = self.rng.random() < 0.7
        self.habits = tuple(self.rng.sample(HABITS, 3)) if few else HABITS
        if self.autoscaled:
            self.habits += AUTOSCALED_HABITS

    def new_job(self) -> None:
        """Create the job, or another of its name."""
        self.jobs += 1
        meta: Object = {"name": JOB, "namespace": "default", "labels": {}}
        job: Object = {"kind": "StreamJob", "metadata": meta, "spec": self._first_spec()}
        self.api.create(job, uid=f"job{self.jobs:04d}-{self.seed}")

    def _first_spec(self) -> Object:
        return first_spec(self.rng, autoscaled=self.autoscaled)

    def act(self, now: float) -> None:
        """Change, delete or create an object of the users."""
        self.now = now
        job = self.api.get("StreamJob", JOB)
        if job is None:
            if self.rng.random() < 0.5:
                self.new_job()
            return
        changes = [c for c in self._changes(object_at(job, "spec")) if c[0] in self.habits]
        self._do(job, *self.rng.choice(changes))

    def wavers(self, now: float) -> bool:
        """Ask again for workers that are about to end, after others took over their state."""
        self.now = now
        job, at = self.api.get("StreamJob", JOB), self.workers.latest()
        there = whole_at(self.api.get(*SET), "spec", "replicas")
        leave = at is not None and there > at.workers > 0 and "waver" in self.habits
        if job is None or not leave or text_at(job, "metadata", "deletionTimestamp"):
            return False
        self._change(job, "replicas", there)
        return True

    def _changes(self, spec: Object) -> tuple[tuple[str, Plain], ...]:
        return (
            *(("replicas", self.rng.randint(1, 4)) for _ in range(4)),
            ("suspend", spec.get("suspend") is not True),
            ("image", self.rng.choice(("v1", "v2", "v3", BAD_IMAGE))),
            ("image", "v4"),
            ("restartNonce", self.rng.randint(1, 99)),
            ("replicas", 0),  # a bad spec, which CEL would refuse in a cluster
            ("upgrade", {"mode": self.rng.choice(("Savepoint", "LastCheckpoint", "Stateless"))}),
            ("upgrade", {"rollback": True, "stableDeadline": "30s"}),
            ("deletionPolicy", self.rng.choice(("Retain", "Savepoint", "Purge"))),
            (
                "restore",
                {"nonce": str(self.rng.randint(1, 9)), "path": "default/a/savepoints/b"},
            ),
            (
                "restore",
                {"nonce": str(self.rng.randint(1, 9)), "empty": True, "allowOutputReplay": True},
            ),
            ("delete", None),
            ("snapshot", None),
            ("snapshot", None),
            ("forget", None),
            *(self._scaling() if self.autoscaled else ()),
        )

    def _scaling(self) -> tuple[tuple[str, Plain], ...]:
        return (
            *(("load", self.rng.choice(LOADS)) for _ in range(4)),
            ("bounds", some_bounds(self.rng)),
            ("bounds", None),
            ("hpa", self.rng.randint(1, 4)),
        )

    def _do(self, job: Object, what: str, value: Plain) -> None:
        self.seen[f"user {what}"] = self.seen.get(f"user {what}", 0) + 1
        if what == "delete":
            self.api.delete(("StreamJob", JOB), now=self.now)
        elif what == "snapshot":
            self._new_snapshot()
        elif what == "forget":
            self._forget_snapshot()
        elif what == "load":
            assert isinstance(value, float)
            self.workers.load = value
        elif not text_at(job, "metadata", "deletionTimestamp"):
            self._change(job, what, value)

    def _change(self, job: Object, what: str, value: Plain) -> None:
        spec, metadata = object_at(job, "spec"), object_at(job, "metadata")
        if what in {"replicas", "hpa"}:  # the newest writer of a field manages it
            metadata = {**metadata, "managedFields": [HPA_ENTRY] if what == "hpa" else []}
        field = {"hpa": "replicas", "bounds": "autoscaling"}.get(what, what)
        spec = {**spec, field: value}
        if spec[field] is None:
            del spec[field]
        self.api.put({**job, "metadata": metadata, "spec": spec})

    def _new_snapshot(self) -> None:
        meta: Object = {"name": f"snap{self.api.count}", "creationTimestamp": ""}
        kind = self.rng.choice(("Savepoint", "Checkpoint"))
        spec: Object = {
            "jobRef": JOB,
            "type": kind,
            "retries": 1,
            "deadline": "200s",
            "disposeOnDelete": kind == "Savepoint" and self.rng.random() < 0.5,
        }
        self.api.create({"kind": "StreamSnapshot", "metadata": meta, "spec": spec})

    def _forget_snapshot(self) -> None:
        known = sorted(key for key in self.api.objects if key[0] == "StreamSnapshot")
        if known:
            self.api.delete(self.rng.choice(known), now=self.now)

    def _take_latest(self) -> None:
        """Delete the -latest of a job that has begun. Only this user may create it again."""
        found = self.api.get(*LATEST)
        at = self.workers.latest()
        if found is not None and at is not None and at.epoch > 0:
            self.taken = found
            self.seen["latest taken"] = self.seen.get("latest taken", 0) + 1
            self.api.delete(LATEST, now=self.now)

    def break_something(self, now: float) -> None:
        """Kill a pod, or delete or change an object of the job."""
        self.now = now
        if self.meets_strangers and self.rng.random() < 0.3:
            self._come_or_go()
            return
        keys = sorted(self.api.objects.keys() - self.strangers.keys())
        pods = [k for k in keys if k[0] == "Pod"]
        if LATEST in keys and self.rng.random() < 0.1:
            self._take_latest()
            return
        others = [k for k in keys if k[0] in {"Service", "Role", "Lease", "NetworkPolicy", "Secret"} or k == DESIRED]
        if pods and self.rng.random() < 0.7:
            self.api.delete(self.rng.choice(pods), now=self.now)
        elif others:
            self.api.delete(self.rng.choice(others), now=self.now)

    def _come_or_go(self) -> None:
        """Create a foreign object under a name of the job, or delete the one created before."""
        key = self.rng.choice(NAMES)
        if key in self.strangers:
            self._part_from(key)
            return
        if key in self.api.objects:
            if key[0] == "StatefulSet":
                return
            self.api.delete(key, now=self.now)
        kind, name = key
        metadata: Object = {"name": name, "labels": {"app": "theirs"}}
        spec: Object = {"replicas": 0}
        self.strangers[key] = self.api.create({"kind": kind, "metadata": metadata, "spec": spec})
        self.seen["stranger"] = self.seen.get("stranger", 0) + 1

    def part(self) -> None:
        """Delete all foreign objects."""
        for key in sorted(self.strangers):
            self._part_from(key)

    def _part_from(self, key: Key) -> None:
        del self.strangers[key]
        self.api.delete(key, now=self.now)
