"""The status of an engine: it is computed from the attempt and the tasks, and never stored.

The status is computed in another thread than the one that carries out orders. An attempt is one
object, which a reset replaces as a whole. A task that is expected and not made yet is not ready.
"""

from dataclasses import dataclass, field
from typing import Protocol

from penstock.contract.control_messages import EngineStatus
from penstock.contract.ids import Attempt, ChannelId, Epoch, Ordinal, TaskId, Version
from penstock.contract.latest import Member
from penstock.contract.plan import Assignment
from penstock.protocol.task.task_core import TaskCore
from penstock.protocol.task.task_state import TaskLifecycle


@dataclass(slots=True)
class TaskMarks:
    """The progress of a task. Written by the task's thread only."""

    ready: bool = False
    prepared: Version = Version(0)
    resumed: Version = Version(0)
    exhausted: bool = False
    published: Epoch = Epoch(0)
    settled: Version = Version(0)
    finished: bool = False


class EngineTask(Protocol):
    """A task that the shell has made."""

    @property
    def core(self) -> TaskCore:
        """Return the task's protocol."""
        ...

    @property
    def marks(self) -> TaskMarks:
        """Return the progress of the task."""
        ...


@dataclass(slots=True)
class EngineAttempt:
    """The state of an engine's attempt beside its tasks.

    - ``restored``: the epoch that the attempt began from; ``joined``: it began by an order to
      prepare.
    - ``prepared``: the version that the tasks were told of; ``newest``: the highest version that was
      proposed here.
    - ``first``: the tasks of the reset; ``expected``: these and the tasks that join.
    - ``committed``: the newest epoch that a leader has called committed here.
    - ``published_for``: the newest epoch of lost workers whose output was published here.
    """

    attempt: Attempt = Attempt(0)
    restored: Epoch = Epoch(0)
    joined: bool = False
    assignment: Assignment | None = None
    proposed: Assignment | None = None
    prepared: Version = Version(0)
    newest: Version = Version(0)
    members: dict[Ordinal, Member] = field(default_factory=dict)
    opened: dict[ChannelId, None] = field(default_factory=dict)
    built: bool = False
    first: frozenset[TaskId] = frozenset()
    expected: frozenset[TaskId] = frozenset()
    running: bool = False
    settled: Version = Version(0)
    committed: Epoch = Epoch(0)
    published_for: Epoch = Epoch(0)
    ending: bool = False

    def confirm(self, epoch: Epoch) -> None:
        """Note that an epoch is committed."""
        self.committed = max(self.committed, epoch)

    def propose(self, table: Assignment, members: tuple[Member, ...]) -> None:
        """Note a proposed table and its members. Its version must not be proposed again."""
        self.proposed = table
        self.newest = table.version
        self.members = {**self.members, **{m.ordinal: m for m in members}}


def status_of(at: EngineAttempt, ordinal: Ordinal, tasks: list[EngineTask]) -> EngineStatus:
    """Compute the status. Every field is about the attempt ``at``, and zero before it is reached."""
    made = {task.core.state.task for task in tasks}
    if not at.built or not at.first <= made:
        return EngineStatus(attempt=at.attempt)
    members = [t for t in tasks if t.core.state.life is not TaskLifecycle.JOINING]
    leaving = [t for t in members if is_leaving(t.core)]
    known = at.expected <= made and all(t.marks.prepared == at.prepared for t in tasks)
    prepared = at.prepared if known else Version(0)
    ready = _ready(at, tasks, members, prepared)
    running = ready and (at.running or at.joined)
    return EngineStatus(
        attempt=at.attempt,
        ready=at.attempt if ready else Attempt(0),
        running=at.attempt if running else Attempt(0),
        prepared=prepared,
        resumed=min((t.marks.resumed for t in tasks), default=_version(at)),
        settled=min((_settled(t) for t in tasks), default=at.settled),
        published=_published(at, tasks),
        exhausted=all(t.marks.exhausted for t in members if t not in leaving),
        left=_leaves(at, ordinal) and all(t.marks.finished for t in tasks),
        ended=at.ending and all(t.marks.finished for t in tasks),
    )


def is_leaving(core: TaskCore) -> bool:
    """Return whether a task leaves with the version that holds, or has left."""
    state = core.state
    return state.life is TaskLifecycle.LEAVING or state.task not in state.assignment.tasks()


def _ready(at: EngineAttempt, tasks: list[EngineTask], members: list[EngineTask], prepared: Version) -> bool:
    if at.joined:  # ready with the table it joins for, and from then on
        return prepared > 0 or len(members) == len(tasks)
    return all(t.marks.ready for t in tasks if not t.core.state.setup.joining)


def _version(at: EngineAttempt) -> Version:
    return Version(0) if at.assignment is None else at.assignment.version


def _leaves(at: EngineAttempt, ordinal: Ordinal) -> bool:
    return at.assignment is not None and ordinal >= at.assignment.workers


def _settled(task: EngineTask) -> Version:
    """Return the version under which a task lives. A task that leaves must have ended.

    The next version may have it again, on channels of the same names.
    """
    marks = task.marks
    return marks.settled if marks.finished or not is_leaving(task.core) else Version(0)


def _published(at: EngineAttempt, tasks: list[EngineTask]) -> Epoch:
    """Return the newest epoch whose output is visible, as all tasks here know.

    Joining tasks count. When the leader dies behind the swap that commits a rescale, the next
    leader asks the joiner, which is a member now, before any worker has adopted the version.
    A worker without tasks has no output: all of it is visible as soon as the epoch is committed.
    """
    lowest = min((t.marks.published for t in tasks), default=at.committed)
    own = lowest if lowest > at.restored else Epoch(0)
    return max(own, at.published_for)
