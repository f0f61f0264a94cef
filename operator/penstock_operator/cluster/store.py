"""What the watches have shown so far, by job. Old by nature: nothing dangerous is decided from it.

An object that a write returned is put in as well, so that the next look is not older than the
last touch; an older version never replaces a newer one. Every write comes back through a watch:
one that does not shows a watch that has gone silent, which nothing else would.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.contract import pod
from penstock.contract.fields import Plain
from penstock_operator.api import names
from penstock_operator.api.plain import Object, list_at, object_at, text_at, texts_at, whole_at


@dataclass(frozen=True, slots=True, order=True)
class JobKey:
    """A job: what is queued, and whose objects are looked at together."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Spell the key as people write it."""
        return f"{self.namespace}/{self.name}"


Place = tuple[str, str]  # kind and name


@dataclass(slots=True)
class Store:
    """Objects by namespace, then kind and name. ``clock`` is monotonic, in seconds.

    ``awaited`` are our own writes that no watch has shown yet, and since when.
    """

    clock: Callable[[], float]
    spaces: dict[str, dict[Place, Object]] = field(default_factory=dict)
    awaited: dict[tuple[str, Place], tuple[int, float]] = field(default_factory=dict)

    def keep(self, plain: Object) -> None:
        """Take in what a write has returned."""
        namespace, place = text_at(plain, "metadata", "namespace"), place_of(plain)
        known = self.spaces.get(namespace, {}).get(place)
        if known is None or _version(known) < _version(plain):
            self.awaited[namespace, place] = (_version(plain), self.clock())
        self._put(plain)

    def silent_s(self) -> float:
        """Return for how long a watch has owed one of our writes; 0 when none does."""
        now = self.clock()
        return max((now - since for _, since in self.awaited.values()), default=0.0)

    def put(self, plain: Object) -> list[JobKey]:
        """Take in what a watch shows. Returns the jobs that it concerns."""
        self._heard(plain, _version(plain))
        return self._put(plain)

    def _heard(self, plain: Object, version: float) -> None:
        key = (text_at(plain, "metadata", "namespace"), place_of(plain))
        awaited, _ = self.awaited.get(key, (0, 0.0))
        if version >= awaited:
            self.awaited.pop(key, None)

    def _put(self, plain: Object) -> list[JobKey]:
        """Take an object in, unless a newer one is there. Returns the jobs that it concerns."""
        space = self.spaces.setdefault(text_at(plain, "metadata", "namespace"), {})
        place = place_of(plain)
        old = space.get(place)
        if old is not None and _version(old) > _version(plain) and _uid(old) == _uid(plain):
            return []
        space[place] = _slim(plain)
        return self.jobs_of(plain)

    def remove(self, plain: Object) -> list[JobKey]:
        """Forget an object, unless another of its name has taken its place."""
        self._heard(plain, math.inf)
        space = self.spaces.get(text_at(plain, "metadata", "namespace"), {})
        old = space.get(place_of(plain))
        if old is not None and _uid(old) == _uid(plain):
            del space[place_of(plain)]
        return self.jobs_of(plain)

    def compare(self, kind: str, namespace: str, listed: list[Object], version: int) -> set[JobKey]:
        """Take a whole list in, as of ``version``; what it does not have is gone.

        Empty ``namespace``: of all. Returns the jobs of what differed.
        """
        there = {(text_at(o, "metadata", "namespace"), _uid(o)) for o in listed}
        found: set[JobKey] = set()
        for plain in self._of(kind, namespace):
            space = text_at(plain, "metadata", "namespace")
            if (space, _uid(plain)) not in there and _version(plain) <= version:
                found.update(self.remove(plain))
        for plain in listed:
            known = self.spaces.get(text_at(plain, "metadata", "namespace"), {})
            old = known.get(place_of(plain))
            if old is None or _version(old) < _version(plain):
                found.update(self._put(plain))
        return found

    def _of(self, kind: str, namespace: str) -> list[Object]:
        return [
            plain
            for space, objects in self.spaces.items()
            for (each, _), plain in objects.items()
            if each == kind and namespace in {"", space}
        ]

    def job(self, key: JobKey) -> Object | None:
        """Return the StreamJob of a key."""
        return self.spaces.get(key.namespace, {}).get(("StreamJob", key.name))

    def jobs(self) -> list[JobKey]:
        """List all jobs."""
        return [
            JobKey(space, name)
            for space, objects in self.spaces.items()
            for kind, name in objects
            if kind == "StreamJob"
        ]

    def autoscaled_workers(self) -> int:
        """Add up the workers that autoscalers have chosen."""
        jobs = (self.job(key) for key in self.jobs())
        return sum(whole_at(job, "status", "autoscaling", "replicas") for job in jobs)

    def objects(self, key: JobKey) -> dict[Place, Object]:
        """Return all that a reconcile of the job looks at, beside the StreamJob itself."""
        space = self.spaces.get(key.namespace, {})
        job = space.get(("StreamJob", key.name))
        claim, snapshot = claim_of(key.name, job), _restores(job)
        return {
            place: plain
            for place, plain in space.items()
            if key in self._direct(plain)
            or place in {("PersistentVolumeClaim", claim), ("StreamSnapshot", snapshot)}
        }

    def jobs_of(self, plain: Object) -> list[JobKey]:
        """Say which jobs an object concerns."""
        found = self._direct(plain)
        kind, name = place_of(plain)
        if kind in {"PersistentVolumeClaim", "StreamSnapshot"}:
            space = text_at(plain, "metadata", "namespace")
            for (other, job_name), job in self.spaces.get(space, {}).items():
                wanted = claim_of(job_name, job) if kind != "StreamSnapshot" else _restores(job)
                if other == "StreamJob" and wanted == name:
                    found.append(JobKey(space, job_name))
        return found

    def _direct(self, plain: Object) -> list[JobKey]:
        space = text_at(plain, "metadata", "namespace")
        kind, name = place_of(plain)
        if kind == "StreamJob":
            return [JobKey(space, name)]
        if kind == "StreamSnapshot":
            # One that names files and no job is looked at under the empty name.
            return [JobKey(space, text_at(plain, "spec", "jobRef"))]
        job = texts_at(plain, "metadata", "labels").get(pod.LABEL_JOB, "")
        return [JobKey(space, job)] if job else []


def place_of(plain: Plain) -> Place:
    """Return kind and name of an object."""
    return text_at(plain, "kind"), text_at(plain, "metadata", "name")


def claim_of(name: str, job: Plain) -> str:
    """Name the claim of a job's checkpoints."""
    given = text_at(job, "spec", "checkpoint", "volume", "claimName")
    return given or names.claim_name(name)


def _restores(job: Plain) -> str:
    return text_at(job, "spec", "restore", "snapshotRef")


def _slim(plain: Object) -> Object:
    """Leave out what is large and never looked at: of those who manage fields, all but scalers."""
    metadata = {k: v for k, v in object_at(plain, "metadata").items() if k != "managedFields"}
    managers = list_at(plain, "metadata", "managedFields")
    scalers = [m for m in managers if text_at(m, "subresource") == "scale"]
    if scalers:
        metadata["managedFields"] = scalers
    return {**plain, "metadata": metadata}


def _version(plain: Plain) -> int:
    text = text_at(plain, "metadata", "resourceVersion")
    return int(text) if text.isdecimal() else 0


def _uid(plain: Plain) -> str:
    return text_at(plain, "metadata", "uid")
