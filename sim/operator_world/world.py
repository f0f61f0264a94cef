"""The operator's simulation: two operators after stale reads, random users, faults; then calm.

An operator is a generator that yields before each read and write, so anything can happen between
them. A crashed operator is never resumed. Every write is checked when it happens.
"""

import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from penstock.contract.streamjob_status import StreamJobStatus, status_plain
from penstock.contract.streamsnapshot import snapshot_status_plain
from penstock_operator.api import names, views
from penstock_operator.api.observed import JobView, Observed
from penstock_operator.api.plain import Object, object_at, seconds, text_at, texts_at, whole_at
from penstock_operator.api.views import Versions
from penstock_operator.reconcile import actions as act
from penstock_operator.reconcile.decide import decide
from penstock_operator.reconcile.observation import ObservationContext, build_observation
from penstock_operator.reconcile.snapshots import decide_orphans
from penstock_operator.resources import coordination
from penstock_operator.resources.target import Owner, framed
from sim.operator_world.api_server import ConflictError, FakeApi, Key, job_of, key_of
from sim.operator_world.operator_invariants import LATEST, SET, OperatorInvariants, ViolationError
from sim.operator_world.pods_and_workers import BAD_IMAGE, JOB, Workers
from sim.operator_world.secrets_model import written
from sim.operator_world.users import DESIRED, LOADS, Users

Decide = Callable[[Observed], act.Decision]
START_S = 1_700_000_000.0
AUTOSCALED_EVERY = 5  # one in so many seeds
STRANGERS_EVERY = 5
WAVER_STEPS = 40  # time for the other operator and the leader to do what the users want now


@dataclass(slots=True)
class World:
    """One run. ``decide`` is tested. Without ``habits`` the seed chooses those of the users."""

    seed: int
    habits: tuple[str, ...] = ()
    decide: Decide = decide
    live_order: tuple[Key, ...] = (SET, DESIRED, LATEST)

    rng: random.Random = field(init=False)
    api: FakeApi = field(init=False)
    workers: Workers = field(init=False)
    now: float = START_S
    invariants: OperatorInvariants = field(init=False)
    users: Users = field(init=False)
    seen: dict[str, int] = field(default_factory=dict)
    caches: list[dict[Key, Object]] = field(default_factory=list)
    versions: Versions = field(default_factory=Versions)
    quiet: list[dict[Key, Object]] = field(default_factory=lambda: [{}, {}])

    def __post_init__(self) -> None:
        """Create the first job, and the claim of its checkpoints."""
        self.rng = random.Random(self.seed)
        self.api = FakeApi(self.seed)
        self.workers = Workers(self.api, self.rng, finishes=self.rng.random() < 0.2)
        self.invariants = OperatorInvariants(self.seed, self.api, self.workers)
        claim: Object = {"accessModes": ["ReadWriteMany"]}
        meta: Object = {"name": "shared", "labels": {}}
        self.api.create({"kind": "PersistentVolumeClaim", "metadata": meta, "spec": claim})
        autoscaled = self.seed % AUTOSCALED_EVERY == 4 or "load" in self.habits
        if autoscaled:
            self.workers.load = 1.5
            self.workers.room = 4 + self.seed // AUTOSCALED_EVERY % 4
        self.users = Users(self.seed, self.rng, self.api, self.workers, self.seen, autoscaled=autoscaled)
        self.users.habits = self.habits or self.users.habits
        self.users.strangers = self.invariants.strangers
        self.users.meets_strangers = self.seed % STRANGERS_EVERY == 3 or "strangers" in self.habits
        self.users.new_job()
        self.caches = [self.api.listed(), self.api.listed()]

    # --- running ------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Run with faults for this number of steps, then calmly until nothing changes any more."""
        operators = [self._operator(0), self._operator(1)]
        asleep = [0, 0]  # until this step; then a paused process continues with what it knew
        stopped = [0, 0]  # the same, but nothing wakes it earlier
        for step in range(steps):
            self.now += self.rng.choice((0.1, 0.5, 2.0))
            dice = self.rng.random()
            if dice < 0.42:
                which = self.rng.randrange(2)
                if self.rng.random() < 0.1:
                    asleep[which] = step + self.rng.choice((5, 15, 40))
                if asleep[which] > step:
                    which = 1 - which
                if stopped[which] > step:
                    continue
                if self.rng.random() < 0.04:
                    operators[which] = self._operator(which)  # killed, and started again
                for _ in range(self.rng.choice((1, 2, 4, 12))):
                    scales = next(operators[which]) == "Scale" and stopped[1 - which] <= step
                    if scales and self.users.wavers(self.now):
                        stopped[which] = step + WAVER_STEPS  # right before it scales
                        break
            elif dice < 0.80:
                self.workers.step(self.now)
                self.invariants.look()
            elif dice < 0.86:
                self.users.break_something(self.now)
            elif dice < 0.90:
                self.api.collect(self.now)
            else:
                self.users.act(self.now)
            self.invariants.check_always()
        self._make_peace()

    def _make_peace(self) -> None:
        """Without more faults: everything must come to rest as the user wants it."""
        self.workers.fails = False
        self.workers.finishes = False
        self.workers.calm = True
        if self.users.autoscaled:
            self.workers.load = self.rng.choice(LOADS)
        self.users.part()
        if self.users.taken is not None and LATEST not in self.api.objects:
            self.api.create(self.users.taken)
        job = self.api.get("StreamJob", JOB)
        if job is not None and text_at(job, "metadata", "deletionTimestamp") == "":
            spec = {**object_at(job, "spec"), "replicas": self.rng.randint(1, 4)}
            at = self.workers.latest()
            if spec["image"] == BAD_IMAGE or at is None or at.failure or self.rng.random() < 0.5:
                spec["image"] = "v9"
            self.api.put({**job, "spec": spec})
        quiet = 0
        for _ in range(120):
            self.now += 120.0
            self.workers.speak(self.now)
            before = self._meaning()
            written = -1
            while written != self.api.count:
                written = self.api.count
                operator = self._operator(0)
                next(operator)
                self.caches[0], self.quiet[0] = self.api.listed(), {}
                while next(operator) != "idle":
                    pass
            for _ in range(3):
                self.workers.settle(self.now)
                self.invariants.look()
            self.invariants.check_always()
            quiet = quiet + 1 if self._meaning() == before and not self._waits() else 0
            if quiet >= (8 if self.users.autoscaled else 2):
                return self.invariants.check_rest()
        raise ViolationError(f"seed {self.seed}: never comes to rest")

    def _waits(self) -> bool:
        """Say whether the job waits for a deadline that lies ahead."""
        return seconds(text_at(self.api.get("StreamJob", JOB), "status", "pending", "deadline")) > self.now

    def _meaning(self) -> str:
        """Describe everything except epochs and versions, which rise forever."""
        at = self.workers.latest()
        found = self.api.get("StreamJob", JOB)
        parts = [
            (key, text_at(o, "metadata", "annotations", names.ANNOTATION_APPLIED))
            for key, o in sorted(self.api.objects.items())
            if coordination.epoch_of(JOB, key[1]) is None
        ]
        shown = None if at is None else (at.workers, at.version, at.closed(), at.run)
        chosen = whole_at(found, "status", "autoscaling", "replicas")
        states = [
            text_at(o, "status", "state") for k, o in sorted(self.api.objects.items()) if k[0] == "StreamSnapshot"
        ]
        return json.dumps([parts, str(shown), text_at(found, "status", "state"), states, chosen])

    def _operator(self, which: int) -> Iterator[str]:
        """Run the endless loop of one operator over its only key."""
        while True:
            self._refresh(which)
            yield "idle"
            if self.quiet[which] == self.caches[which]:
                continue  # nothing has changed since it last had nothing to do
            seen = self._observe(self.caches[which], refresh=self.rng.random() < 0.05)
            if seen is None:
                yield from self._orphans()
                continue
            first = self.decide(seen)
            if not first.actions and first.status is None:
                self.quiet[which] = dict(self.caches[which])
            elif first.status_may_wait or self.workers.calm:  # shown from what was seen, whatever is
                yield from self._perform(first, seen)
            else:
                live = dict(self.caches[which])
                for key in (("StreamJob", JOB), *self.live_order):
                    yield f"reads {key}"
                    found = self.api.get(*key)
                    live.pop(key, None)
                    if found is not None:
                        live[key] = found
                    if key == SET:
                        yield "lists pods"
                        live = {k: o for k, o in live.items() if k[0] != "Pod"}
                        live |= {k: o for k, o in self.api.objects.items() if k[0] == "Pod"}
                live = {k: o for k, o in live.items() if k[0] != "StreamSnapshot"}
                live |= {k: o for k, o in self.api.objects.items() if k[0] == "StreamSnapshot"}
                seen = self._observe(live, refresh=False)
                if seen is None:
                    continue
                yield from self._perform(self.decide(seen), seen)

    def _orphans(self) -> Iterator[str]:
        """Handle snapshots without a job, after the API server confirmed that there is none."""
        yield "reads job"
        if self.api.get("StreamJob", JOB) is not None:
            return
        seen = build_observation(
            JobView(JOB, "default", "", 0, None, StreamJobStatus()),
            self.api.listed().values(),
            ObservationContext(self.now),
            self.versions,
        )
        if seen.snapshots:
            yield from self._perform(decide_orphans(seen), seen)

    def _refresh(self, which: int) -> None:
        """Let a watch catch up, fully or for some objects; or let it be silent."""
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
        moment = ObservationContext(self.now, refresh=refresh, secrets_read=True)
        view = self.versions.view(views.job_view, job)
        return build_observation(view, objects.values(), moment, self.versions)

    def _perform(self, decision: act.Decision, seen: Observed) -> Iterator[str]:
        """Perform a decision, one call at a time. A failure ends it, and faults can at any time."""
        try:
            if decision.status_first:
                yield "status"
                self._write_status(decision, seen)
            for action in decision.actions:
                yield str(type(action).__name__)
                if self._bad_luck():
                    return  # refused for a reason of the server: 429, 500
                self._do(action, seen)
                if self._bad_luck():
                    return  # done, but the reply was lost
            if not decision.status_first:
                yield "status"
                self._write_status(decision, seen)
        except ConflictError:
            return

    def _bad_luck(self) -> bool:
        return not self.workers.calm and self.rng.random() < 0.02

    def _write_status(self, decision: act.Decision, seen: Observed) -> None:
        job = self.api.get("StreamJob", JOB)
        if decision.status is None or job is None:
            return
        if text_at(job, "metadata", "uid") != seen.job.uid:
            raise ConflictError("another job")
        self._count_choice(decision.status, seen)
        plain = dict(status_plain(decision.status))
        self.api.put({**job, "status": plain}, version=seen.job.version)

    def _count_choice(self, status: StreamJobStatus, seen: Observed) -> None:
        old, new = seen.job.status.autoscaling, status.autoscaling
        if old is not None and new is not None and old.replicas != new.replicas:
            what = "autoscaled up" if new.replicas > old.replicas else "autoscaled down"
            what = "autoscaling undone" if new.undone else what
            self.seen[what] = self.seen.get(what, 0) + 1
            self.invariants.check_choice(seen, new)

    def _do(self, action: act.Action, seen: Observed) -> None:
        self.seen[type(action).__name__] = self.seen.get(type(action).__name__, 0) + 1
        owner = Owner(JOB, "default", seen.job.uid)
        match action:
            case act.Apply(manifest, _, version, uid):
                old = self.api.get(text_at(manifest, "kind"), text_at(manifest, "metadata", "name"))
                if not version or text_at(old, "metadata", "resourceVersion") == version:
                    self.invariants.check_template(manifest, seen)
                self.api.apply(manifest, uid=uid, version=version)
            case act.Create(manifest):
                self.invariants.check_create(manifest)
                self._create(manifest)
            case act.Scale(replicas, fence, version):
                self._scale((replicas, fence, version), seen)
            case act.WriteDesired(value, fence, latest_uid, version):
                self._want(coordination.desired(owner, value, fence, latest_uid), version)
            case act.Archive(job_uid, uid, version):
                self._archive(owner, (job_uid, uid, version))
            case act.Delete(kind, name, uid, now):
                self.invariants.check_delete((kind, name), uid, self.now if now else None)
                self.api.delete((kind, name), uid=uid, now=self.now, by_force=now)
            case act.WriteAuthority() | act.WriteCertificates():
                self._trust(seen, action)
            case act.SetFinalizer(present, "", version):
                self._finalizer(("StreamJob", JOB), seen.job.uid, version, present=present)
            case act.SetFinalizer(present, name, version):
                uid = next(s.uid for s in seen.snapshots if s.name == name)
                self._finalizer(("StreamSnapshot", name), uid, version, present=present)
            case act.WriteSnapshotStatus(name, status, version):
                found = self.api.get("StreamSnapshot", name)
                if found is not None:
                    plain = dict(snapshot_status_plain(status))
                    self.api.put({**found, "status": plain}, version=version)

    def _create(self, manifest: Object) -> None:
        """Create an object, unless the same job has created it already."""
        try:
            self.api.create(manifest)
        except ConflictError:
            if job_of(self.api.objects[key_of(manifest)]) != job_of(manifest):
                raise

    def _trust(self, seen: Observed, action: act.WriteAuthority | act.WriteCertificates) -> None:
        mounted = self.api.get("Secret", action.secret)
        above = self.api.get("Secret", names.authority_name(action.secret))
        first = isinstance(action, act.WriteAuthority)
        if not first and above is None:
            raise ConflictError("the authority has gone")
        old = above if first else mounted
        if text_at(old, "metadata", "resourceVersion") != action.version:
            raise ConflictError("changed")
        try:
            made = written(action, mounted, above, self.now)
        except KeyError as error:
            raise ConflictError("an authority has gone") from error
        frame = framed("v1", "Secret", Owner(JOB, "default", seen.job.uid), "")
        made["metadata"] = {**object_at(frame, "metadata"), **object_at(made, "metadata")}
        if old is None:
            self.api.create(made)
            return
        metadata = {**object_at(old, "metadata"), **object_at(made, "metadata")}
        self.api.put({**made, "metadata": metadata}, version=action.version)

    def _want(self, manifest: Object, version: str) -> None:
        if not version:
            self.api.create(manifest)
            return
        old = self.api.get(*DESIRED)
        if old is None or text_at(old, "metadata", "resourceVersion") != version:
            raise ConflictError("changed")
        value = views.desired_view(manifest).value
        self.invariants.check_answers(value.requests)
        self.invariants.check_fresh(views.desired_view(old).value, value)
        both = {**object_at(old, "metadata"), **object_at(manifest, "metadata")}
        self.api.put({**old, **manifest, "metadata": both}, version=version)

    def _scale(self, what: tuple[int, int, str], seen: Observed) -> None:
        replicas, fence, version = what
        old = self.api.get(*SET)
        if old is None or text_at(old, "metadata", "resourceVersion") != version:
            raise ConflictError("set changed")
        self.invariants.check_scale(replicas, seen)
        metadata = object_at(old, "metadata")
        marks = {**texts_at(old, "metadata", "annotations"), names.ANNOTATION_FENCE: str(fence)}
        spec = {**object_at(old, "spec"), "replicas": replicas}
        self.api.put({**old, "metadata": {**metadata, "annotations": dict(marks)}, "spec": spec})

    def _archive(self, owner: Owner, what: tuple[str, str, str]) -> None:
        job_uid, uid, version = what
        found = self.api.get(*LATEST)
        if found is None or text_at(found, "metadata", "resourceVersion") != version:
            raise ConflictError("latest changed")
        with suppress(ConflictError):  # created by an earlier try
            self.api.create(coordination.archive(owner, found, job_uid))
        self.api.delete(LATEST, uid=uid)

    def _finalizer(self, key: Key, uid: str, version: str, *, present: bool) -> None:
        found = self.api.get(*key)
        if found is None:
            return
        metadata: Object = {
            **object_at(found, "metadata"),
            "finalizers": [names.FINALIZER] if present else [],
        }
        if text_at(metadata, "uid") != uid:
            raise ConflictError("another one")
        if metadata.get("deletionTimestamp") and present:
            raise ConflictError("no new finalizer on what is being deleted")
        self.api.put({**found, "metadata": metadata}, version=version)
