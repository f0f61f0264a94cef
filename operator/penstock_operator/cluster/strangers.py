"""Objects of others that have names of a job's: met when the API server refused to make ours.

No watch shows them, for they lack our label, so each is read again: soon at first, then less and
less often, until it is gone. Between that it costs nothing.
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


def is_stranger(plain: Object, job_uid: str) -> bool:
    """Say whether an object is not of this job, and no watch shows what becomes of it."""
    labelled = pod.LABEL_JOB in texts_at(plain, "metadata", "labels")
    watched = labelled and text_at(plain, "kind") != SECRET.kind
    return not watched and job_of(plain) != job_uid


@dataclass(frozen=True, slots=True)
class Stranger:
    """One object as it was last read; it is read again at ``due``, ``wait_s`` after that."""

    plain: Object
    wait_s: float
    due: float


@dataclass(slots=True)
class Strangers:
    """By job; ``clock`` is monotonic, in seconds. A job has some dozen names at most."""

    clock: Callable[[], float]
    known: dict[JobKey, dict[Place, Stranger]] = field(default_factory=dict)

    def meet(self, key: JobKey, plain: Object) -> None:
        """Take in an object that was read; each time it is still there it waits twice as long."""
        place = place_of(plain)
        before = self.known.setdefault(key, {}).get(place)
        wait = LOOK_FIRST_S if before is None else min(before.wait_s * 2, LOOK_MAX_S)
        self.known[key][place] = Stranger(plain, wait, self.clock() + wait)

    def part(self, key: JobKey, place: Place) -> None:
        """Forget one that is gone."""
        met = self.known.get(key, {})
        met.pop(place, None)
        if not met:
            self.forget(key)

    def forget(self, key: JobKey) -> None:
        """Forget all that a job has met."""
        self.known.pop(key, None)

    def of(self, key: JobKey) -> dict[Place, Object]:
        """Return those that a job has met."""
        return {place: one.plain for place, one in self.known.get(key, {}).items()}

    def due(self, key: JobKey) -> list[Object]:
        """Return those that are to be read again now."""
        now = self.clock()
        return [one.plain for one in self.known.get(key, {}).values() if one.due <= now]

    def due_in_s(self, key: JobKey) -> float | None:
        """Return after how long the next one is to be read again; None: none was met."""
        dues = [one.due for one in self.known.get(key, {}).values()]
        return max(0.0, min(dues) - self.clock()) if dues else None
