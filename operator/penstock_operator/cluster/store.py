"""What the watches have reported so far, by job. It can be stale: no write relies on it alone.

Objects that our own writes returned are put in, too, so the next observation is at least as new as
the last write. An older version never replaces a newer one. A watch reports every write, also our
own. One that it does not report shows a silent watch; nothing else would show it.

Every look-up uses an index. Its cost depends on the objects of one job, not on the number of jobs.
Only the parts of an object that decisions look at stay in memory (:func:`projected`). Without this, the
specs of pods would fill most of the operator's memory, and nothing reads them.

Foreign objects under names of a job are found when the API server refuses to create ours. No watch
reports them, because they lack our label. So each is read again, soon at first and then less and less
often, until it is gone (:class:`ForeignObjects`). Between two reads it costs nothing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from penstock.base.values import replace
from penstock.contract import pod
from penstock.contract.schema import Plain
from penstock_operator.api import names
from penstock_operator.api.folders import folder_at
from penstock_operator.api.kinds import SECRET, Kind
from penstock_operator.api.names import job_of
from penstock_operator.api.plain import Object, at, list_at, object_at, text_at, texts_at, whole_at
from penstock_operator.reconcile.observation import ObjectParts, affects_decision, parts_of

WHOLE = frozenset({"StreamJob", "StreamSnapshot"})
# Of these kinds only metadata: it shows their owner and what was applied last.
BARE = frozenset(
    {
        "Lease",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
    }
)
SPEC_KEPT = {"StatefulSet": ("replicas",), "PersistentVolumeClaim": ("accessModes",)}
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def projected(plain: Object) -> Object:
    """Return the part of an object to keep, as a new object.

    Of the managed fields only those of scalers are kept: see ``views.job_view``.
    """
    kind = text_at(plain, "kind")
    kept: Object = {"kind": kind, "metadata": _metadata(plain)}
    if "apiVersion" in plain:
        kept["apiVersion"] = plain["apiVersion"]
    if kind in WHOLE:
        return {**plain, **kept}
    if kind in BARE:
        return kept
    if kind == "ConfigMap":
        return {**kept, "data": at(plain, "data")} if _is_read(plain) else kept
    spec = object_at(plain, "spec")
    kept["spec"] = {k: spec[k] for k in SPEC_KEPT.get(kind, ()) if k in spec}
    kept["status"] = at(plain, "status")
    return kept


def _is_read(plain: Plain) -> bool:
    """Say whether the data of a ConfigMap is read: of a record or a spec, not of an archive."""
    job = text_at(plain, "metadata", "labels", pod.LABEL_JOB)
    name = text_at(plain, "metadata", "name")
    records = (pod.latest_name(job), pod.desired_name(job), pod.status_name(job))
    return name in records or name.startswith(pod.config_name(job))


def _metadata(plain: Plain) -> Object:
    metadata = {k: v for k, v in object_at(plain, "metadata").items() if k != "managedFields"}
    managers = list_at(plain, "metadata", "managedFields")
    scalers = [m for m in managers if text_at(m, "subresource") == "scale"]
    if scalers:
        metadata["managedFields"] = scalers
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and LAST_APPLIED in annotations:
        metadata["annotations"] = {k: v for k, v in annotations.items() if k != LAST_APPLIED}
    return metadata


@dataclass(frozen=True, slots=True, order=True)
class JobKey:
    """A job: the key of the queue and of the store."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Return the key as people write it."""
        return f"{self.namespace}/{self.name}"


STREAM_JOB = "StreamJob"
K = TypeVar("K")
V = TypeVar("V")
Place = tuple[str, str]  # kind and name
Spot = tuple[str, Place]  # namespace, kind and name


@dataclass(frozen=True, slots=True)
class Kept:
    """An object, and what is asked of it at every event; ``version`` 0: it has none."""

    plain: Object
    uid: str
    version: int
    owner: JobKey | None
    parts: ObjectParts


@dataclass(slots=True)
class Store:
    """Objects by namespace, kind and name. ``clock`` is monotonic, in seconds.

    - ``awaited``: our own writes that no watch has reported yet, and when they were made.
    - ``owned``: the places of the objects of each job.
    - ``wanted``: the jobs that name a claim or a snapshot.
    """

    clock: Callable[[], float]
    spots: dict[Spot, Kept] = field(default_factory=dict)
    awaited: dict[Spot, tuple[int, float]] = field(default_factory=dict)
    owned: dict[JobKey, set[Place]] = field(default_factory=dict)
    wanted: dict[Spot, set[JobKey]] = field(default_factory=dict)
    known: dict[JobKey, Object] = field(default_factory=dict)

    def keep(self, plain: Object) -> None:
        """Put in the object that a write returned."""
        spot = spot_of(plain)
        if self._is_news(spot, plain):
            self.awaited[spot] = (_version(plain), self.clock())
        self._put(spot, plain)

    def silent_s(self) -> float:
        """Return for how long a watch has not reported one of our writes; 0 if it reported all."""
        now = self.clock()
        return max((now - since for _, since in self.awaited.values()), default=0.0)

    def put(self, plain: Object) -> list[JobKey]:
        """Put in an object that a watch reports. Returns the jobs whose decision may change."""
        spot = spot_of(plain)
        self._heard(spot, _version(plain))
        return self._put(spot, plain)

    def renew(self, spot: Spot, uid: str, version: int) -> bool:
        """Note that an object is at ``version``, and else as it is kept. False: it is not known."""
        known = self.spots.get(spot)
        if known is None or known.uid != uid:
            return False
        self._heard(spot, version)
        if known.version < version:
            self.spots[spot] = replace(known, version=version)
        return True

    def remove(self, plain: Object) -> list[JobKey]:
        """Remove an object, unless another one with its name has replaced it."""
        spot = spot_of(plain)
        self._heard(spot, math.inf)
        old = self.spots.get(spot)
        if old is None or old.uid != _uid(plain):
            return []
        found = self._jobs_of(spot, old)
        self._drop(spot, old)
        return found

    def compare(self, kind: Kind, namespace: str, listed: list[Object], version: int) -> set[JobKey]:
        """Put in a whole list as of ``version``, and remove what it does not contain.

        An empty ``namespace`` means all. Returns the jobs whose decision may change.
        """
        there = {(spot_of(o), _uid(o)) for o in listed}
        found: set[JobKey] = set()
        for spot, old in self._of(kind, namespace):
            if (spot, old.uid) not in there and old.version <= version:
                found.update(self.remove(old.plain))
        for plain in listed:
            spot = spot_of(plain)
            if self._is_news(spot, plain):
                found.update(self._put(spot, plain))
        return found

    def job(self, key: JobKey) -> Object | None:
        """Return the StreamJob of a key."""
        return self.known.get(key)

    def version_at(self, plain: Plain) -> str:
        """Return the known version of the object with this kind and name; empty if unknown."""
        known = self.spots.get(spot_of(plain))
        return "" if known is None or not known.version else str(known.version)

    def jobs(self) -> list[JobKey]:
        """List all jobs."""
        return list(self.known)

    def replaying(self) -> list[JobKey]:
        """List the jobs that ask for a replay."""
        return [key for key, job in self.known.items() if at(job, "spec", "replay") is not None]

    def autoscaled_workers(self) -> int:
        """Add up the workers that autoscalers have chosen."""
        return sum(whole_at(j, "status", "autoscaling", "replicas") for j in self.known.values())

    def objects(self, key: JobKey) -> dict[Place, Object]:
        """Return all objects that a reconcile of the job needs, except those that it reads live."""
        places = set(self.owned.get(key, ()))
        job = self.known.get(key)
        if job is not None:
            places.update(place for _, place in _wants(key.name, job))
        found = ((place, self.spots.get((key.namespace, place))) for place in places)
        return {place: kept.plain for place, kept in found if kept is not None}

    def _jobs_of(self, spot: Spot, kept: Kept) -> list[JobKey]:
        """Return the jobs that an object belongs to, or that name it."""
        own = kept.owner
        others = self.wanted.get(spot, set())
        return [*([] if own is None else [own]), *sorted(others - {own})]

    def _is_news(self, spot: Spot, plain: Object) -> bool:
        old = self.spots.get(spot)
        return old is None or old.version < _version(plain)

    def _put(self, spot: Spot, plain: Object) -> list[JobKey]:
        """Put an object in, unless a newer one is known. Returns the jobs that it matters to."""
        old = self.spots.get(spot)
        uid, version = _uid(plain), _version(plain)
        same = old is not None and old.uid == uid
        if old is not None and same and old.version >= max(version, 1):
            return []
        kept_part = projected(plain)
        kept = Kept(kept_part, uid, version, _owner(spot, kept_part), parts_of(kept_part))
        if old is not None and old.owner == kept.owner and spot[1][0] != STREAM_JOB:
            self.spots[spot] = kept
        else:
            if old is not None:
                self._drop(spot, old)
            self._add(spot, kept)
        before = old.parts if old is not None and same else None
        if before == kept.parts:
            return []
        jobs = self._jobs_of(spot, kept)
        return [k for k in jobs if affects_decision(before, kept.parts, self.known.get(k))]

    def _add(self, spot: Spot, kept: Kept) -> None:
        self.spots[spot] = kept
        if kept.owner is None:
            return
        self.owned.setdefault(kept.owner, set()).add(spot[1])
        if spot[1][0] == STREAM_JOB:
            self.known[kept.owner] = kept.plain
            for wish in _wants(kept.owner.name, kept.plain):
                self.wanted.setdefault(wish, set()).add(kept.owner)

    def _drop(self, spot: Spot, kept: Kept) -> None:
        del self.spots[spot]
        if kept.owner is None:
            return
        _discard(self.owned, kept.owner, spot[1])
        if spot[1][0] == STREAM_JOB:
            del self.known[kept.owner]
            for wish in _wants(kept.owner.name, kept.plain):
                _discard(self.wanted, wish, kept.owner)

    def _heard(self, spot: Spot, version: float) -> None:
        awaited, _ = self.awaited.get(spot, (0, 0.0))
        if version >= awaited:
            self.awaited.pop(spot, None)

    def _of(self, kind: Kind, namespace: str) -> list[tuple[Spot, Kept]]:
        """List all objects of a kind by a full scan, for the rare comparison with a whole list."""
        return [
            (spot, kept)
            for spot, kept in self.spots.items()
            if spot[1][0] == kind.kind
            and namespace in {"", spot[0]}
            and text_at(kept.plain, "apiVersion") == kind.api_version
        ]


def spot_of(plain: Plain) -> Spot:
    """Return namespace, kind and name of an object."""
    return text_at(plain, "metadata", "namespace"), place_of(plain)


def place_of(plain: Plain) -> Place:
    """Return kind and name of an object."""
    return text_at(plain, "kind"), text_at(plain, "metadata", "name")


def claim_of(name: str, job: Plain) -> str:
    """Name the claim of a job's checkpoints."""
    given = text_at(job, "spec", "checkpoint", "volume", "claimName")
    return given or names.claim_name(name)


def _owner(spot: Spot, plain: Plain) -> JobKey | None:
    """Return the job that an object is part of; of a StreamJob it is the object itself."""
    space, (kind, name) = spot
    if kind == STREAM_JOB:
        return JobKey(space, name)
    if kind == "StreamSnapshot":
        # An imported one belongs to the job with these files; without such a job the key is empty.
        folder = folder_at(space, text_at(plain, "spec", "path"))
        job = text_at(plain, "spec", "jobRef")
        return JobKey(space, job if folder is None else folder.job)
    job = text_at(plain, "metadata", "labels", pod.LABEL_JOB)
    return JobKey(space, job) if job else None


def _wants(name: str, job: Plain) -> list[Spot]:
    """Return the places of the claim and the snapshot that a job names."""
    space = text_at(job, "metadata", "namespace")
    snapshot = text_at(job, "spec", "restore", "snapshotRef")
    claim: Spot = (space, ("PersistentVolumeClaim", claim_of(name, job)))
    return [claim, (space, ("StreamSnapshot", snapshot))] if snapshot else [claim]


def _discard(index: dict[K, set[V]], key: K, value: V) -> None:
    """Remove a value from an index, and its set when it is empty."""
    kept = index.get(key, set())
    kept.discard(value)
    if not kept:
        index.pop(key, None)


def _version(plain: Plain) -> int:
    text = text_at(plain, "metadata", "resourceVersion")
    return int(text) if text.isdecimal() else 0


def _uid(plain: Plain) -> str:
    return text_at(plain, "metadata", "uid")


LOOK_FIRST_S = 2.0
LOOK_MAX_S = 60.0


def is_foreign(plain: Object, job_uid: str) -> bool:
    """Say whether an object does not belong to this job, and no watch reports its changes."""
    labelled = pod.LABEL_JOB in texts_at(plain, "metadata", "labels")
    watched = labelled and text_at(plain, "kind") != SECRET.kind
    return not watched and job_of(plain) != job_uid


# --- Foreign objects -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ForeignObject:
    """One object as it was read last. It is read again at ``due``, which is ``wait_s`` later."""

    plain: Object
    wait_s: float
    due: float


@dataclass(slots=True)
class ForeignObjects:
    """The foreign objects of each job; ``clock`` is monotonic, in seconds."""

    clock: Callable[[], float]
    known: dict[JobKey, dict[Place, ForeignObject]] = field(default_factory=dict)

    def add(self, key: JobKey, plain: Object) -> None:
        """Add an object that was read. The wait doubles each time that it still exists."""
        place = place_of(plain)
        before = self.known.setdefault(key, {}).get(place)
        wait = LOOK_FIRST_S if before is None else min(before.wait_s * 2, LOOK_MAX_S)
        self.known[key][place] = ForeignObject(plain, wait, self.clock() + wait)

    def remove(self, key: JobKey, place: Place) -> None:
        """Remove an object that is gone."""
        met = self.known.get(key, {})
        met.pop(place, None)
        if not met:
            self.forget(key)

    def forget(self, key: JobKey) -> None:
        """Remove all objects of a job."""
        self.known.pop(key, None)

    def of(self, key: JobKey) -> dict[Place, Object]:
        """Return the foreign objects of a job."""
        return {place: one.plain for place, one in self.known.get(key, {}).items()}

    def due(self, key: JobKey) -> list[Object]:
        """Return the objects that are due to be read again."""
        now = self.clock()
        return [one.plain for one in self.known.get(key, {}).values() if one.due <= now]

    def due_in_s(self, key: JobKey) -> float | None:
        """Return the time until the next one is read again; None when there is none."""
        dues = [one.due for one in self.known.get(key, {}).values()]
        return max(0.0, min(dues) - self.clock()) if dues else None
