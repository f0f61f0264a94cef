"""What the watches have shown so far, by job. Old by nature: nothing dangerous is decided from it.

An object that a write returned is put in as well, so that the next look is not older than the
last touch; an older version never replaces a newer one. Every write comes back through a watch:
one that does not shows a watch that has gone silent, which nothing else would.

Every look-up is by an index: its cost depends on the objects of one job, never on how many jobs
there are.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from penstock.contract import pod
from penstock.contract.schema import Plain
from penstock_operator.api import names
from penstock_operator.api.folders import folder_at
from penstock_operator.api.kinds import Kind
from penstock_operator.api.plain import Object, at, text_at, whole_at
from penstock_operator.api.slim import slim
from penstock_operator.reconcile.predicates import Gist, gist_of, matters


@dataclass(frozen=True, slots=True, order=True)
class JobKey:
    """A job: what is queued, and whose objects are looked at together."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Spell the key as people write it."""
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
    gist: Gist


@dataclass(slots=True)
class Store:
    """Objects by namespace, kind and name. ``clock`` is monotonic, in seconds.

    ``awaited`` are our own writes that no watch has shown yet, and since when. ``owned`` are the
    places of each job's own objects; ``wanted`` the jobs that name a claim or a snapshot.
    """

    clock: Callable[[], float]
    spots: dict[Spot, Kept] = field(default_factory=dict)
    awaited: dict[Spot, tuple[int, float]] = field(default_factory=dict)
    owned: dict[JobKey, set[Place]] = field(default_factory=dict)
    wanted: dict[Spot, set[JobKey]] = field(default_factory=dict)
    known: dict[JobKey, Object] = field(default_factory=dict)

    def keep(self, plain: Object) -> None:
        """Take in what a write has returned."""
        spot = spot_of(plain)
        if self._is_news(spot, plain):
            self.awaited[spot] = (_version(plain), self.clock())
        self._put(spot, plain)

    def silent_s(self) -> float:
        """Return for how long a watch has owed one of our writes; 0 when none does."""
        now = self.clock()
        return max((now - since for _, since in self.awaited.values()), default=0.0)

    def put(self, plain: Object) -> list[JobKey]:
        """Take in what a watch shows. Returns the jobs whose decision it may change."""
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
        """Forget an object, unless another of its name has taken its place."""
        spot = spot_of(plain)
        self._heard(spot, math.inf)
        old = self.spots.get(spot)
        if old is None or old.uid != _uid(plain):
            return []
        found = self._jobs_of(spot, old)
        self._drop(spot, old)
        return found

    def compare(
        self, kind: Kind, namespace: str, listed: list[Object], version: int
    ) -> set[JobKey]:
        """Take a whole list in, as of ``version``; what it does not have is gone.

        Empty ``namespace``: of all. Returns the jobs whose decision a difference may change.
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
        """Return the version of the object of that kind and name; empty when none is known."""
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
        """Return all that a reconcile of the job looks at, beside what it reads live."""
        places = set(self.owned.get(key, ()))
        job = self.known.get(key)
        if job is not None:
            places.update(place for _, place in _wants(key.name, job))
        found = ((place, self.spots.get((key.namespace, place))) for place in places)
        return {place: kept.plain for place, kept in found if kept is not None}

    def _jobs_of(self, spot: Spot, kept: Kept) -> list[JobKey]:
        """Say which jobs an object concerns."""
        own = kept.owner
        others = self.wanted.get(spot, set())
        return [*([] if own is None else [own]), *sorted(others - {own})]

    def _is_news(self, spot: Spot, plain: Object) -> bool:
        old = self.spots.get(spot)
        return old is None or old.version < _version(plain)

    def _put(self, spot: Spot, plain: Object) -> list[JobKey]:
        """Take an object in, unless a newer one is there. Returns the jobs that it matters to."""
        old = self.spots.get(spot)
        uid, version = _uid(plain), _version(plain)
        same = old is not None and old.uid == uid
        if old is not None and same and old.version >= max(version, 1):
            return []
        slimmed = slim(plain)
        kept = Kept(slimmed, uid, version, _owner(spot, slimmed), gist_of(slimmed))
        if old is not None and old.owner == kept.owner and spot[1][0] != STREAM_JOB:
            self.spots[spot] = kept
        else:
            if old is not None:
                self._drop(spot, old)
            self._add(spot, kept)
        before = old.gist if old is not None and same else None
        if before == kept.gist:
            return []
        jobs = self._jobs_of(spot, kept)
        return [k for k in jobs if matters(before, kept.gist, self.known.get(k))]

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
        """Scan everything: only for the rare comparison with a whole list."""
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
        # One that names files is looked at with the job whose they are; that of none has no name.
        folder = folder_at(space, text_at(plain, "spec", "path"))
        job = text_at(plain, "spec", "jobRef")
        return JobKey(space, job if folder is None else folder.job)
    job = text_at(plain, "metadata", "labels", pod.LABEL_JOB)
    return JobKey(space, job) if job else None


def _wants(name: str, job: Plain) -> list[Spot]:
    """Return where the claim and the snapshot are that a job names."""
    space = text_at(job, "metadata", "namespace")
    snapshot = text_at(job, "spec", "restore", "snapshotRef")
    claim: Spot = (space, ("PersistentVolumeClaim", claim_of(name, job)))
    return [claim, (space, ("StreamSnapshot", snapshot))] if snapshot else [claim]


def _discard(index: dict[K, set[V]], key: K, value: V) -> None:
    """Take a value out of an index; a set that is empty goes too."""
    kept = index.get(key, set())
    kept.discard(value)
    if not kept:
        index.pop(key, None)


def _version(plain: Plain) -> int:
    text = text_at(plain, "metadata", "resourceVersion")
    return int(text) if text.isdecimal() else 0


def _uid(plain: Plain) -> str:
    return text_at(plain, "metadata", "uid")
