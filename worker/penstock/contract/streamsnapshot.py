"""The StreamSnapshot: a savepoint or checkpoint that is asked for, or imported, by an object.

    Pending ──> InProgress ──> Completed
                    └────────> Failed        after ``retries``, or the deadline

An object with ``path`` names files that are already there: it completes when they are readable.
"""

from dataclasses import dataclass
from enum import StrEnum

from penstock.contract import streamsnapshot_rules as rules
from penstock.contract.streamjob_status import Condition

KIND = "StreamSnapshot"


class SnapshotType(StrEnum):
    """A savepoint is the user's and never collected; a checkpoint goes with its job's others."""

    SAVEPOINT = "Savepoint"
    CHECKPOINT = "Checkpoint"


class SnapshotState(StrEnum):
    """How far it is."""

    PENDING = "Pending"
    IN_PROGRESS = "InProgress"
    COMPLETED = "Completed"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class SnapshotSpec:
    """What is asked for: of the job ``job_ref``, or the files at ``path``.

    ``dispose_on_delete``: the savepoint's files go with this object.
    """

    job_ref: str | None = None
    path: str | None = None
    type: SnapshotType = SnapshotType.SAVEPOINT
    dispose_on_delete: bool = False
    deadline_s: float = 600.0
    retries: int = 3

    def __post_init__(self) -> None:
        """Refuse what nobody may dispose of."""
        rules.DISPOSABLE.refuse(
            self.dispose_on_delete
            and (self.type is SnapshotType.CHECKPOINT or self.path is not None)
        )


@dataclass(frozen=True, slots=True)
class StreamSnapshot:
    """One object: its name and namespace, and the spec."""

    name: str
    spec: SnapshotSpec
    namespace: str = "default"


@dataclass(frozen=True, slots=True)
class SnapshotStatus:
    """All of ``status``. ``job_uid`` is the job whose state it is; ``path`` what a restore takes.

    The condition ``Ready`` is True when a job can be restored from it.
    """

    observed_generation: int = 0
    state: SnapshotState = SnapshotState.PENDING
    conditions: tuple[Condition, ...] = ()
    path: str | None = None
    epoch: int | None = None
    bytes: int | None = None
    started: str | None = None
    completed: str | None = None
    failures: int = 0
    message: str = ""
    job_uid: str | None = None
