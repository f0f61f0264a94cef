"""What the watches have shown so far, by job. Old by nature: nothing dangerous is decided from it.

An object that a write returned is put in as well, so that the next look is not older than the
last touch; an older version never replaces a newer one.
"""

from dataclasses import dataclass, field

from penstock.contract import pod
from penstock.contract.fields import Plain
from penstock_operator.api import names
from penstock_operator.api.plain import Object, object_at, text_at, texts_at


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
    """Objects by namespace, then kind and name."""

    spaces: dict[str, dict[Place, Object]] = field(default_factory=dict)

    def put(self, plain: Object) -> list[JobKey]:
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
        space = self.spaces.get(text_at(plain, "metadata", "namespace"), {})
        old = space.get(place_of(plain))
        if old is not None and _uid(old) == _uid(plain):
            del space[place_of(plain)]
        return self.jobs_of(plain)

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
            job = text_at(plain, "spec", "jobRef")
            return [JobKey(space, job)] if job else []
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
    """Leave out what is large and never looked at."""
    metadata = {k: v for k, v in object_at(plain, "metadata").items() if k != "managedFields"}
    return {**plain, "metadata": metadata}


def _version(plain: Plain) -> int:
    text = text_at(plain, "metadata", "resourceVersion")
    return int(text) if text.isdecimal() else 0


def _uid(plain: Plain) -> str:
    return text_at(plain, "metadata", "uid")
