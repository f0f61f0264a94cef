"""What must never happen while the operator works, and the state that it must reach."""

import math
from dataclasses import dataclass, field

from penstock.contract import pod
from penstock.contract.latest import Desired, Latest, Request
from penstock.contract.streamjob_status import AutoscalingStatus
from penstock_operator.api import names
from penstock_operator.api.observed import Observed
from penstock_operator.api.plain import Object, object_at, seconds, text_at, texts_at, whole_at
from sim.operator_world.api_server import FakeApi, Key, job_of
from sim.operator_world.pods_and_workers import JOB, Workers

OVERDUE_S = 15.0
TARGET = 0.7  # the busy share of a spec that does not name one
SET = ("StatefulSet", pod.workers_name(JOB))
LATEST = ("ConfigMap", pod.latest_name(JOB))


class ViolationError(AssertionError):
    """Something happened that must never happen."""


@dataclass(slots=True)
class OperatorInvariants:
    """Checks every write before it is done, and the world when it is at rest.

    - ``committed``: the newest epoch of each job that ever existed.
    - ``restored``: the nonce of the newest restore that its spec asked for.
    - ``purged``: the jobs whose checkpoints were to be removed.
    - ``strangers``: foreign objects under names of the job, as their owners made them.
    """

    seed: int
    api: FakeApi
    workers: Workers
    committed: dict[str, int] = field(default_factory=dict)
    restored: dict[str, str] = field(default_factory=dict)
    purged: set[str] = field(default_factory=set)
    strangers: dict[Key, Object] = field(default_factory=dict)

    def _fail(self, text: str) -> None:
        raise ViolationError(f"seed {self.seed}: {text}")

    def look(self) -> None:
        """Record what is committed."""
        at = self.workers.latest()
        if at is not None:
            known = self.committed.get(at.job_uid, 0)
            self.committed[at.job_uid] = max(known, int(at.max_epoch))
            if at.restored and not at.restored.startswith("stateless "):
                self.restored[at.job_uid] = at.restored

    def check_always(self) -> None:
        """Check after every step what must always hold. Raises ViolationError."""
        for key, plain in self.strangers.items():
            if self.api.objects.get(key) != plain:
                self._fail(f"{key} belongs to another owner, and was changed or deleted")
        live = self.workers.pods()
        specs = {texts_at(p, "metadata", "annotations").get(names.ANNOTATION_DIGEST) for p in live.values()}
        if len(specs) > 1:
            self._fail("workers of two specs at once")
        if len({job_of(p) for p in live.values()}) > 1:
            self._fail("workers of two jobs at once")

    def check_template(self, manifest: Object, seen: Observed) -> None:
        """Check the StatefulSet that the operator is about to write."""
        if text_at(manifest, "kind") != "StatefulSet":
            return
        old = self.api.objects.get(SET)
        before = texts_at(old, "metadata", "annotations").get(names.ANNOTATION_DIGEST)
        after = texts_at(manifest, "metadata", "annotations").get(names.ANNOTATION_DIGEST)
        if old is not None and before == after:
            self.check_scale(whole_at(manifest, "spec", "replicas"), seen)

    def check_scale(self, replicas: int, seen: Observed) -> None:
        """Check that workers with state stay, and the leader that was observed.

        Another worker may be elected at any time, also between the observation and this write. Then
        the shrink ends the leader, as any pod can end, and another election follows.
        """
        at, known = self.workers.latest(), seen.latest.value if seen.latest is not None else None
        before = whole_at(self.api.objects.get(SET), "spec", "replicas")
        if at is None or replicas == 0 or at.closed() or replicas >= before:
            return
        leader = 0 if known is None or known.leader is None else known.leader.ordinal
        if replicas < at.workers or at.settled != at.version or replicas <= leader:
            self._fail(
                f"scaled to {replicas} while {at.workers} workers hold state "
                f"(version {at.version}, settled {at.settled}, leader {leader})"
            )

    def check_create(self, manifest: Object) -> None:
        """Check an object that the operator is about to create."""
        key = (text_at(manifest, "kind"), text_at(manifest, "metadata", "name"))
        if key in self.api.objects:
            return  # after a stale read: it changes nothing
        if key[0] == "Job":
            self._check_removal(key[1])
        if key != LATEST:
            return
        uid = job_of(manifest)
        if self._restore_is_asked(uid):
            self.committed.pop(uid, None)  # somebody deleted the old -latest; a restore replaces it
        elif self.committed.get(uid, 0) > 0:
            self._fail(f"-latest of {uid} is created again after epoch {self.committed[uid]}")

    def _restore_is_asked(self, uid: str) -> bool:
        """Say whether a restore is still to be done: only then may -latest be created again."""
        job = self.api.objects.get(("StreamJob", JOB))
        nonce = text_at(job, "spec", "restore", "nonce")
        new = nonce != "" and nonce != text_at(job, "status", "restore", "nonce")
        return new and text_at(job, "metadata", "uid") == uid and not self.workers.pods()

    def _check_removal(self, name: str) -> None:
        """Check that files are removed only with their job or snapshot, and only when asked for."""
        job = self.api.objects.get(("StreamJob", JOB))
        of_job = name == names.purge_name(JOB, text_at(job, "metadata", "uid"))
        gone = text_at(job, "metadata", "deletionTimestamp") and not self.workers.pods()
        if of_job and gone and text_at(job, "spec", "deletionPolicy") == "Purge":
            return
        given_up = {
            names.purge_name(JOB, text_at(found, "metadata", "uid"))
            for key, found in self.api.objects.items()
            if key[0] == "StreamSnapshot"
            and object_at(found, "spec")["disposeOnDelete"]
            and text_at(found, "metadata", "deletionTimestamp")
        }
        if name not in given_up:
            self._fail(f"{name} removes files that nobody asked to remove")

    def check_fresh(self, before: Desired, after: Desired) -> None:
        """Check that a restore is done once, and that only a changed spec may drop state."""
        restore, at = after.restore, self.workers.latest()
        if restore is None or restore == before.restore:
            return
        if at is not None and self.restored.get(at.job_uid) == restore.nonce:
            self._fail(f"a second restore under the nonce {restore.nonce}")
        changed = before.run.rpartition("-")[2] != after.run.rpartition("-")[2]
        if restore.nonce.startswith("stateless ") and not changed:
            self._fail(f"state is dropped ({restore.nonce!r}) although nothing changed")

    def check_delete(self, key: Key, uid: str, by_force: float | None) -> None:
        """Check a deletion; ``by_force`` is its time if it has no grace period, else None."""
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
        if key[0] == "Pod" and by_force is not None:
            asked = seconds(text_at(found, "metadata", "deletionTimestamp"))
            if not asked or by_force < asked + OVERDUE_S:
                self._fail("a pod is deleted by force although its worker is not lost")

    def check_answers(self, wanted: tuple[Request, ...]) -> None:
        """Check that a request is removed only when its snapshot's status has the answer."""
        at = self.workers.latest()
        kept = {r.id for r in wanted}
        for answer in () if at is None else at.answers:
            if answer.ok and answer.request.startswith("snap-") and answer.request not in kept:
                uid = answer.request.removeprefix("snap-").rpartition("-")[0]
                for key, found in self.api.objects.items():
                    goes = text_at(found, "metadata", "deletionTimestamp")
                    mine = text_at(found, "metadata", "uid") == uid
                    if key[0] == "StreamSnapshot" and mine and not goes:
                        state = text_at(found, "status", "state")
                        if state not in {"Completed", "Failed"}:
                            self._fail(f"the answer to {answer.request} is lost")

    # --- the state at rest ---------------------------------------------------------------------

    def check_rest(self) -> None:
        """Check the state when nothing happens any more."""
        job = self.api.get("StreamJob", JOB)
        at = self.workers.latest()
        for uid, epoch in self.committed.items():
            self._check_kept(uid, epoch, at)
        self._check_snapshots()
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
        elif _is_given_up(job):
            return self._check_whole(job)  # the earlier spec runs on, with its number of workers
        elif at.failure is None and (len(pods), at.workers) != (self._wanted(job),) * 2:
            self._fail(f"{len(pods)} pods, {at.workers} workers, {self._wanted(job)} wanted, {state}")
        elif at.failure is None and state != "Running":
            self._fail(f"at rest in state {state}")
        self._check_whole(job)

    def _wanted(self, job: Object) -> int:
        """Return the number of workers that there must be at rest."""
        bounds = object_at(job, "spec", "autoscaling")
        if not bounds or object_at(job, "metadata").get("managedFields"):
            return whole_at(job, "spec", "replicas")
        chosen = whole_at(job, "status", "autoscaling", "replicas")
        least, most = whole_at(bounds, "minReplicas"), whole_at(bounds, "maxReplicas")
        if not least <= chosen <= most:
            self._fail(f"{chosen} workers are chosen, {least}..{most} allowed")
        load = self.workers.load
        ratio = min(1.0, (load or 0.0) / chosen) / TARGET
        fits = abs(ratio - 1.0) <= 0.101 or (ratio < 1.0 and math.ceil(chosen * ratio) >= chosen)
        given_up = object_at(job, "status", "autoscaling").get("undone") is True
        most_there = chosen == most or (given_up and chosen <= self.workers.room)
        if not fits and not (most_there if ratio > 1.0 else chosen == least):
            self._fail(f"at rest with {chosen} workers of {least}..{most} under a load of {load}")
        return chosen

    def check_choice(self, seen: Observed, chosen: AutoscalingStatus) -> None:
        """Check that the autoscaler changes a number only at rest, and within the bounds."""
        old, at = seen.job.status.autoscaling, seen.latest.value if seen.latest else None
        bounds = object_at(seen.job.spec, "autoscaling")
        least, most = whole_at(bounds, "minReplicas"), whole_at(bounds, "maxReplicas")
        assert old is not None
        if not bounds or not least <= chosen.replicas <= most:
            self._fail(f"{chosen.replicas} workers are chosen, {least}..{most} allowed")
        if chosen.replicas == min(max(old.replicas, least), most) or chosen.undone:
            return  # new bounds, and missing workers, do not wait for rest
        wanted = seen.desired.value.workers if seen.desired else 0
        rests = at is not None and at.settled == at.version and at.workers == old.replicas
        if not rests or wanted != old.replicas or seen.job.scaled_by_hpa:
            self._fail(f"{old.replicas} -> {chosen.replicas} workers in the middle of a rescale")

    def _check_kept(self, uid: str, epoch: int, at: Latest | None) -> None:
        if at is not None and at.job_uid == uid:
            if at.max_epoch < epoch:
                self._fail(f"epoch {epoch} of {uid} is lost: -latest knows {at.max_epoch}")
            return
        purged = not any(
            k[1].startswith(names.archive_name(JOB, "")) and job_of(o) == uid for k, o in self.api.objects.items()
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

    def _check_snapshots(self) -> None:
        for (kind, name), plain in self.api.objects.items():
            state = text_at(plain, "status", "state")
            if kind == "StreamSnapshot" and text_at(plain, "metadata", "deletionTimestamp"):
                self._fail(f"the deletion of {name} hangs")
            if kind == "StreamSnapshot" and state not in {"Completed", "Failed"}:
                self._fail(f"{name} stays {state} forever")


def _is_given_up(job: Object) -> bool:
    """Say whether the newest spec waits for a person, because its savepoint failed."""
    conditions = object_at(job, "status").get("conditions")
    listed = conditions if isinstance(conditions, list) else []
    return any(text_at(c, "reason") == "SavepointFailed" for c in listed)
