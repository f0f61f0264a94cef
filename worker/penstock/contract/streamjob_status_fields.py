"""The table of a StreamJob's ``status``: what the CRD schema, the reader and the writer use."""

from penstock.base.limits import RETAINED_CHECKPOINTS_MAX, SAVEPOINTS_UNDER_WAY_MAX
from penstock.contract import streamjob_status as st
from penstock.contract.reader import read_known
from penstock.contract.schema import (
    MESSAGE_CHARS_MAX,
    Plain,
    Row,
    boolean,
    choice,
    duration,
    group,
    integer,
    integers,
    listing,
    number,
    row_of,
    text,
)
from penstock.contract.status import SinkStatus
from penstock.contract.streamjob import OperatorFlavour
from penstock.contract.writer import carried, plain_object

CLIPPED = " [...]"
RETAINED_MAX = RETAINED_CHECKPOINTS_MAX + SAVEPOINTS_UNDER_WAY_MAX


def time(name: str, meaning: str, **more: object) -> Row:
    """Build the row of a moment, an RFC 3339 text."""
    return text(name, meaning, format="date-time", length_max=64, **more)


def count(name: str, meaning: str, **more: object) -> Row:
    """Build the row of a whole number that is never negative."""
    return integer(name, meaning, minimum=0, **more)


def fitting(text: str) -> str:
    """Cut a text that is longer than a message may be: the API server would refuse the status."""
    if len(text) <= MESSAGE_CHARS_MAX:
        return text
    return text[: MESSAGE_CHARS_MAX - len(CLIPPED)] + CLIPPED


def _message(meaning: str, **more: object) -> Row:
    return text("message", meaning, length_min=0, length_max=MESSAGE_CHARS_MAX, **more)


CHECKPOINT = group(
    "checkpoint",
    "how checkpoints go",
    st.CheckpointSummary,
    group(
        "lastCompleted",
        "the newest committed one",
        st.LastCompleted,
        count("epoch", "its number", required=True),
        time("time", "when it was committed", required=True),
        count("bytes", "new bytes on the volume", default=0),
        duration("duration", "from its barrier to its commit", default="0s"),
        text("path", "its folder on the checkpoint volume", default="", length_max=4096),
    ),
    count("failures", "failed ones in a row since then", default=0),
    integers("retained", "epochs whose files are kept", length_max=RETAINED_MAX, minimum=0),
)
RESTARTS = group(
    "restarts",
    "deaths of engines of late; absent while there were none",
    st.RestartSummary,
    count("count", "deaths within the window of spec.restart", required=True),
    count("limit", "restarts that are allowed; one death more fails the job", required=True),
    duration("window", "the window of spec.restart", required=True),
    text(
        "last",
        "how the newest ended, what was in flight, its last words",
        default="",
        length_min=0,
        length_max=MESSAGE_CHARS_MAX,
    ),
    text("worker", "the pod where it was"),
)
PENDING = group(
    "pending",
    "the operation under way, written before it begins",
    st.Pending,
    text("action", "what is done", required=True, length_max=64),
    count("generation", "the generation of spec that it leads to", required=True),
    time("since", "when it was decided", required=True),
    time("deadline", "when it is given up"),
    count("replicas", "the workers that it leads to"),
    text("snapshot", "the savepoint or request that it waits for"),
)
RESTORE = group(
    "restore",
    "the last restore that was carried out",
    st.RestoreStatus,
    text("nonce", "the nonce of spec.restore that asked for it", required=True),
    time("time", "when it was carried out", required=True),
    boolean("replayed", "output may be repeated since then", default=False),
    integers("lostOutput", "epochs whose output was dropped on request", length_max=64, minimum=0),
)
SPARK_APPLICATION = group(
    "sparkApplication",
    "the replay that feeds the job",
    st.SparkApplicationStatus,
    text("name", "name of the SparkApplication", required=True),
    choice("flavour", "whose SparkApplication it is", OperatorFlavour, required=True),
    text("state", "its state, as Spark's operator spells it", required=True, length_max=64),
    _message("why it failed", default=""),
    count("rows", "rows of it that the job was last heard to have taken", default=0),
)
AUTOSCALING = group(
    "autoscaling",
    "what the autoscaler has chosen; absent where spec.replicas counts",
    st.AutoscalingStatus,
    count("replicas", "workers that it wants", required=True),
    time("time", "since when it wants so many", required=True),
    _message("why so many", default=""),
    boolean("undone", "more were wanted, and did not come", default=False),
    number("busy", "share of time at work of the busiest step", minimum=0, maximum=1),
    text("step", "the busiest step, over all its tasks"),
)
SNAPSHOTS = group(
    "snapshots",
    "savepoints by the clock; absent without spec.snapshots",
    st.PeriodicStatus,
    time("time", "the newest period that one was asked for", required=True),
    text("name", "its StreamSnapshot", required=True),
)
STATUS = group(
    "status",
    "what is, as the operator last saw it",
    st.StreamJobStatus,
    count("observedGeneration", "the generation of spec that this status is about", default=0),
    choice("state", "the state in one word, for people", st.StreamJobState, default="Pending"),
    text(
        "reason",
        "why it stalls, is not accepted, or is not ready, whichever matters most",
        default="",
        length_min=0,
        length_max=64,
    ),
    row_of(st.Conditions, ()),
    count("desiredReplicas", "workers that are wanted, by spec.replicas or by the autoscaler"),
    count("replicas", "pods that exist", default=0),
    count("readyReplicas", "pods that are ready", default=0),
    text("selector", "label selector of the pods, as a text", default="", length_max=1024),
    text("leader", "the pod that coordinates the job"),
    count("term", "rises with every new leader"),
    count("attempt", "rises with every rollback to a checkpoint"),
    group(
        "assignment",
        "the committed assignment of key groups",
        st.AssignmentStatus,
        count("version", "rises with every rescale", required=True),
        count("workers", "workers that own key groups", required=True),
    ),
    CHECKPOINT,
    listing(
        "sinks",
        "the sinks and the guarantee of their output",
        SinkStatus,
        text("name", "name of the step", required=True),
        text(
            "guarantee",
            "exactly-once, effectively-once, at-least-once or none",
            required=True,
            length_max=64,
        ),
        key="name",
        length_max=256,
    ),
    group(
        "lastFailure",
        "why the job last rolled back or failed",
        st.LastFailure,
        time("time", "when", required=True),
        text("reason", "why, in one word", required=True, length_max=64),
        _message("why, for people", required=True),
        text("worker", "the pod where it began"),
    ),
    RESTARTS,
    PENDING,
    RESTORE,
    group(
        "lastStable",
        "the last spec that ran and completed a checkpoint",
        st.LastStable,
        count("generation", "its generation", required=True),
        text("digest", "its hash; a rollback goes back to it", required=True, length_max=128),
    ),
    SPARK_APPLICATION,
    AUTOSCALING,
    SNAPSHOTS,
)


def read_status(plain: Plain) -> st.StreamJobStatus:
    """Build the status from an object's ``status``; none yet is that of a new job.

    Another version may have written it: fields that this one does not know are left aside, values
    that it does not know stay texts, and what cannot be read is as if it were not there. So an
    operator never stumbles over a status; see :func:`carried_status` for how it writes one.
    """
    return read_known(st.StreamJobStatus, STATUS, plain)


def status_plain(status: st.StreamJobStatus) -> dict[str, Plain]:
    """Spell a status as its object holds it; :func:`read_status` reads the same value back.

    Texts that are too long for the schema are clipped; what is None is left out.
    """
    return plain_object(STATUS, status)


def carried_status(old: Plain, status: st.StreamJobStatus) -> dict[str, Plain]:
    """Spell a status to be written over ``old``: what another version has written there stays.

    Fields that this version does not know are carried as they are, those of a part of the status
    for as long as the part is the same one.
    """
    return carried(STATUS, old, status_plain(status))
