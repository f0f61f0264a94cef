"""What a checkpoint is made of, as data: files with their ranges and hashes, offsets, handles.

One root manifest per epoch holds the manifests of all tasks inline: one file, one hash, read
whole. It lists every live file in order and never refers to a parent. Hashes live here only.
"""

from penstock.contract.codec import ABSENT, Absent, Message
from penstock.contract.ids import Attempt, BlobName, Epoch, JobUid, SplitId, TaskId, Term
from penstock.contract.keygroups import Share
from penstock.contract.plan import Assignment, StepState

ROOT_FORMAT = 2


CHILD = "."  # no name of a step has one


def child_state(step: str, child: str) -> str:
    """Name the state of a child table in files: ``score.seen``."""
    return f"{step}{CHILD}{child}"


def step_of(state: str) -> str:
    """Return the step that a state belongs to; a child table belongs to the step of its parent."""
    return state.partition(CHILD)[0]


class BlobRef(Message, tag="BlobRef"):
    """A stored file: its name in the job's directory, its SHA-256 in hex, and its bytes."""

    name: BlobName
    sha256: str
    size: int


class StateFile(Message, tag="StateFile"):
    """A state file for one task, which may read only the key groups ``groups``.

    Of two rows of one key, the one in the file with the higher ``order`` counts. A task that loses
    a group narrows ``groups``. A task that gains a group takes over the entry of the old owner.
    ``epoch`` is the one in the name: that of the first manifest that listed the file.
    """

    blob: BlobRef
    state: str
    groups: Share
    order: int
    epoch: Epoch
    rows: int

    @property
    def step(self) -> str:
        """Return the step that the state belongs to."""
        return step_of(self.state)


class SplitState(Message, tag="SplitState"):
    """Where a split stands: the next offset, whether it has ended, its largest event time.

    ``spec`` is the connector's own description of the split (canonical JSON).
    """

    split: SplitId
    spec: str
    offset: int
    finished: bool = False
    max_ts: int | None = None


class SinkHandle(Message, tag="SinkHandle"):
    """Prepared output. Any live worker can publish it with this, any number of times.

    ``data`` is the connector's own text (canonical JSON). ``epoch`` is the one that prepared it:
    a handle of an aborted epoch is carried into the next one's manifest unchanged.

    ``whole`` says that the target has one marker for the sink, like a table with one commit for each epoch. Then the
    leader names the worker that publishes all handles of the sink with one call. It is left out elsewhere, because
    older workers refuse fields that they do not know.
    """

    sink: str
    task: TaskId
    epoch: Epoch
    data: str
    rows: int
    size: int
    whole: bool | Absent = ABSENT


def misfit(value: SplitState | SinkHandle) -> str | None:
    """Name the first field with a value that no reader of a checkpoint would take; None when there is none.

    Python does not look at types, so a connector of a user may put anything there.
    """
    for name, kind in _KINDS[type(value)].items():
        given = getattr(value, name)
        if not isinstance(given, kind) and not (name == "max_ts" and given is None):
            return f"its {name} is {type(given).__name__}, {kind.__name__} is due"
    return None


_KINDS: dict[type, dict[str, type]] = {
    SplitState: {"split": str, "spec": str, "offset": int, "finished": bool, "max_ts": int},
    SinkHandle: {"epoch": int, "data": str, "rows": int, "size": int},
}


class GroupsTime(Message, tag="GroupsTime"):
    """An event time that the steps of some key groups were told."""

    groups: Share
    time_us: int


class CopyDigest(Message, tag="CopyDigest"):
    """What a task has of a side table: how many rows, and the sum of their hashes. All tasks have the same."""

    state: str
    rows: int
    digest: int


class GroupRows(Message, tag="GroupRows"):
    """How many rows a task has sent to the key groups of a step since its last snapshot: ``rows[i]`` to ``groups[i]``.

    Groups without rows are left out, and those with least when there are more than ``LOAD_GROUPS_MAX``.
    """

    step: str
    groups: tuple[int, ...]
    rows: tuple[int, ...]


class TaskManifest(Message, tag="TaskManifest"):
    """One task's snapshot at a barrier. Its acknowledgement carries it.

    ``watermark_us`` is the time that the steps have reached: all windows and timers up to it have fired. ``firing`` has
    the key groups whose steps were told a later time, of which some windows and timers may have fired. It is left
    out when there are none, because older workers refuse fields that they do not know.
    """

    task: TaskId
    files: tuple[StateFile, ...] = ()
    splits: tuple[SplitState, ...] = ()
    handles: tuple[SinkHandle, ...] = ()
    watermark_us: int | None = None
    lists: tuple[str, ...] = ()
    exhausted: bool = False
    firing: tuple[GroupsTime, ...] | Absent = ABSENT
    copies: tuple[CopyDigest, ...] | Absent = ABSENT
    load: tuple[GroupRows, ...] | Absent = ABSENT


class StepRows(Message, tag="StepRows"):
    """How many rows a source has read, or a sink has written, since the job first started."""

    step: str
    rows: int


class Origin(Message, tag="Origin"):
    """The savepoint that a job has begun from: epoch ``epoch`` of the job ``job_uid``."""

    job_uid: JobUid
    epoch: Epoch


class RootManifest(Message, tag="RootManifest"):
    """A complete checkpoint. ``kind`` is that of its barrier, by name; ``rows`` are its totals.

    ``origin`` is set in the one that a job has imported from a savepoint, until its own first one.

    State is found again by the name of its step: ``states`` lists what is held of which step, and
    ``steps`` the names of the steps of each stage, under which ``tasks`` are numbered. In format 1
    both are empty: it fits the plan whose ``state_fingerprint`` is ``fingerprint``, by place.
    """

    job_uid: JobUid
    epoch: Epoch
    term: Term
    attempt: Attempt
    kind: str
    max_key_groups: int
    fingerprint: str
    assignment: Assignment
    tasks: tuple[TaskManifest, ...]
    states: tuple[StepState, ...] = ()
    steps: tuple[tuple[str, ...], ...] = ()
    format: int = ROOT_FORMAT
    rows: tuple[StepRows, ...] = ()
    origin: Origin | None = None
