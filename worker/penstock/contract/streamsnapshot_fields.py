"""The tables of a StreamSnapshot, and how its object is read and its status written."""

from penstock.contract import streamsnapshot as ss
from penstock.contract import streamsnapshot_rules as rules
from penstock.contract.fields import (
    Field,
    Kind,
    Plain,
    boolean,
    choice,
    duration,
    group,
    integer,
    text,
)
from penstock.contract.metadata import metadata, object_name
from penstock.contract.paths import PATH, PATH_RULE
from penstock.contract.reader import Origin, Reader, pruned
from penstock.contract.streamjob import API_VERSION
from penstock.contract.streamjob_fields import PATH_CHARS_MAX
from penstock.contract.streamjob_status_fields import (
    MESSAGE_CHARS_MAX,
    conditions,
    count,
    time,
)
from penstock.contract.writer import plain_object

SPEC = group(
    "spec",
    "what is asked for",
    ss.SnapshotSpec,
    object_name("jobRef", "the StreamJob to take it of, in the same namespace", immutable=True),
    text(
        "path",
        "files that are already there: the folder of a savepoint or checkpoint",
        pattern=PATH,
        rule=PATH_RULE,
        length_max=PATH_CHARS_MAX,
        immutable=True,
    ),
    choice(
        "type",
        "a savepoint is kept until it is deleted by hand, a checkpoint as long as its job keeps it",
        ss.SnapshotType,
        default="Savepoint",
        immutable=True,
    ),
    boolean("disposeOnDelete", "the files go with this object", default=False),
    duration("deadline", "it fails when it takes longer", default="10m", minimum="1s"),
    integer("retries", "so many more tries after a failure", default=3, minimum=0, maximum=100),
    required=True,
    one_of=("jobRef", "path"),
    rules=rules.SPEC,
)
STATUS = group(
    "status",
    "what is, as the operator last saw it",
    ss.SnapshotStatus,
    count("observedGeneration", "the generation of spec that this status is about", default=0),
    choice("state", "how far it is", ss.SnapshotState, default="Pending"),
    conditions(),
    text("path", "the folder that a restore takes", length_max=PATH_CHARS_MAX),
    count("epoch", "the number of its checkpoint"),
    count("bytes", "bytes of its files"),
    time("started", "when it was begun"),
    time("completed", "when it was complete, or given up"),
    count("failures", "tries that failed", default=0),
    text("message", "why it failed", default="", length_max=MESSAGE_CHARS_MAX),
    text("jobUid", "the UID of the job whose state it is", length_max=64),
)


def _snapshot(*, metadata: dict[str, object], spec: ss.SnapshotSpec, **_: object) -> object:
    return ss.StreamSnapshot(str(metadata["name"]), spec, str(metadata["namespace"]))


STREAM_SNAPSHOT = group(
    "",
    "a snapshot of a stream job",
    _snapshot,
    Field(
        "apiVersion", Kind.CHOICE, f"must be {API_VERSION}", required=True, choices=(API_VERSION,)
    ),
    Field("kind", Kind.CHOICE, f"must be {ss.KIND}", required=True, choices=(ss.KIND,)),
    metadata(object_name("name", "name of the snapshot", required=True)),
    SPEC,
    Field("status", Kind.ANY, "written by the operator; not read here"),
)


def read_stream_snapshot(plain: Plain, origin: Origin | None = None) -> ss.StreamSnapshot:
    """Build the snapshot from plain data. Raises ConfigError with every problem, one a line."""
    reader = Reader(origin or Origin())
    snapshot = reader.read(STREAM_SNAPSHOT, plain, "")
    reader.done()
    assert isinstance(snapshot, ss.StreamSnapshot), "a reader without problems builds the value"
    return snapshot


def read_snapshot_status(plain: Plain) -> ss.SnapshotStatus:
    """Build the status from an object's ``status``; of another version's it takes what it can."""
    reader = Reader(Origin("status"), lenient=True)
    status = reader.read(STATUS, pruned(STATUS, plain or {}), "status")
    reader.done()
    assert isinstance(status, ss.SnapshotStatus), "a reader without problems builds the value"
    return status


def snapshot_status_plain(status: ss.SnapshotStatus) -> dict[str, Plain]:
    """Spell a status as its object holds it; :func:`read_snapshot_status` reads it back."""
    return plain_object(STATUS, status)
