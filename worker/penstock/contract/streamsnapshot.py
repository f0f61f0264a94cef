"""The StreamSnapshot: an object that asks for a savepoint or checkpoint, or imports one.

    Pending ──> InProgress ──> Completed
                    └────────> Failed        after ``retries``, or the deadline

An object with ``path`` names files that already exist: it completes when they are readable.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from penstock.contract.reader import Origin, Reader, plain_object, read_known
from penstock.contract.schema import (
    PATH_CHARS_MAX,
    Count,
    Duration,
    Field,
    Fields,
    MessageText,
    ObjectName,
    Plain,
    Rule,
    SnapshotPath,
    Time,
    document,
    object_row,
    row_of,
)
from penstock.contract.streamjob_status import Conditions

KIND = "StreamSnapshot"


class SnapshotType(StrEnum):
    """A savepoint belongs to the user and is never collected; the job collects its checkpoints."""

    SAVEPOINT = "Savepoint"
    CHECKPOINT = "Checkpoint"


class SnapshotState(StrEnum):
    """The state of a snapshot in one word, for people."""

    PENDING = "Pending"
    IN_PROGRESS = "InProgress"
    COMPLETED = "Completed"
    FAILED = "Failed"


DISPOSABLE = Rule(
    "!self.disposeOnDelete || self.type == 'Savepoint' && !has(self.path)",
    "disposeOnDelete is for savepoints that this object asks for: a job collects its own"
    " checkpoints, and imported files belong to somebody else",
    path=".disposeOnDelete",
)


@dataclass(frozen=True, slots=True)
class SnapshotSpec(Fields):
    """What is asked for: a snapshot of the job ``job_ref``, or the files at ``path``."""

    ONE_OF = ("jobRef", "path")
    RULES = (DISPOSABLE,)

    job_ref: Annotated[
        ObjectName | None,
        Field("jobRef", "the StreamJob that is saved, in the same namespace", immutable=True),
    ] = None
    path: Annotated[
        SnapshotPath | None,
        Field("path", "folder of a savepoint or checkpoint that exists already", immutable=True),
    ] = None
    type: Annotated[
        SnapshotType,
        Field(
            "type",
            "a savepoint is kept until it is deleted by hand, a checkpoint as long as its job keeps it",
            immutable=True,
        ),
    ] = SnapshotType.SAVEPOINT
    dispose_on_delete: Annotated[bool, Field("disposeOnDelete", "delete the files together with this object")] = False
    deadline_s: Annotated[Duration, Field("deadline", "the snapshot fails when it takes longer", minimum="1s")] = 600.0
    retries: Annotated[int, Field("retries", "number of further tries after a failure", minimum=0, maximum=100)] = 3

    def __post_init__(self) -> None:
        """Refuse to dispose of files that belong to somebody else."""
        DISPOSABLE.refuse(self.dispose_on_delete and (self.type is SnapshotType.CHECKPOINT or self.path is not None))


@dataclass(frozen=True, slots=True)
class StreamSnapshot:
    """One object: its name and namespace, and the spec."""

    name: str
    spec: SnapshotSpec
    namespace: str = "default"


@dataclass(frozen=True, slots=True)
class SnapshotStatus(Fields):
    """All of ``status``. The condition ``Ready`` is True when it is complete; only a savepoint can be restored."""

    observed_generation: Annotated[
        Count, Field("observedGeneration", "the generation of spec that this status is about")
    ] = 0
    state: Annotated[SnapshotState, Field("state", "the state in one word, for people")] = SnapshotState.PENDING
    conditions: Conditions = ()
    path: Annotated[str | None, Field("path", "the folder that a restore takes", length_max=PATH_CHARS_MAX)] = None
    epoch: Annotated[Count | None, Field("epoch", "the number of its checkpoint")] = None
    bytes: Annotated[Count | None, Field("bytes", "total bytes of its files")] = None
    started: Annotated[Time | None, Field("started", "when it was begun")] = None
    completed: Annotated[Time | None, Field("completed", "when it completed or was given up")] = None
    failures: Annotated[Count, Field("failures", "number of tries that failed")] = 0
    message: Annotated[MessageText, Field("message", "why it failed")] = ""
    job_uid: Annotated[str | None, Field("jobUid", "the UID of the job whose state it is", length_max=64)] = None


SPEC = object_row(SnapshotSpec, "spec", "what you ask for")
STATUS = object_row(SnapshotStatus, "status", "what the operator last saw")
_NAME = row_of(Annotated[ObjectName, Field("name", "name of the snapshot")])
STREAM_SNAPSHOT = document(KIND, "a snapshot of a stream job", _NAME, SPEC, StreamSnapshot)


def read_stream_snapshot(plain: Plain, origin: Origin | None = None) -> StreamSnapshot:
    """Build the snapshot from plain data. Raises ConfigError with every problem, one a line."""
    return Reader(origin or Origin()).whole(StreamSnapshot, STREAM_SNAPSHOT, plain)


def read_snapshot_status(plain: Plain) -> SnapshotStatus:
    """Build the status from an object's ``status``, which another version may have written."""
    return read_known(SnapshotStatus, STATUS, plain)


def snapshot_status_plain(status: SnapshotStatus) -> dict[str, Plain]:
    """Spell a status as its object holds it; :func:`read_snapshot_status` reads it back."""
    return plain_object(STATUS, status)
