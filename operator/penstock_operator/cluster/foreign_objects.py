"""Foreign objects under names of a job: found when the API server refused to create ours.

No watch reports them, because they lack our label. So each is read again, soon at first and then
less and less often, until it is gone. Between two reads it costs nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.contract import pod
from penstock_operator.api.kinds import SECRET
from penstock_operator.api.owners import job_of
from penstock_operator.api.plain import Object, text_at, texts_at
from penstock_operator.cluster.store import JobKey, Place, place_of

LOOK_FIRST_S = 2.0
LOOK_MAX_S = 60.0


def is_foreign(plain: Object, job_uid: str) -> bool:
    """Say whether an object does not belong to this job, and no watch reports its changes."""
    labelled = pod.LABEL_JOB in texts_at(plain, "metadata", "labels")
    watched = labelled and text_at(plain, "kind") != SECRET.kind
    return not watched and job_of(plain) != job_uid


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
