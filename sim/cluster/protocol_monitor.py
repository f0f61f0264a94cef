"""The monitor of the protocol: promises that are checked inside the processes, when they are broken.

A broken rule may do no harm in most runs, because another rule covers for it. The promises here are
checked where they are broken. So a run need not also meet the rare moment in which harm shows.

G  a stream is accepted only by a worker of its own attempt
G  no engine is told that an epoch is aborted which its leader's term has committed or commits later
G  once a rescale is committed no task goes on under the version before it
O  a barrier does not overtake a watermark that was put on its channel before it
C  a task cuts once at a barrier, whichever way the barrier comes
C  files that a worker pre-loads for a proposed version exist until the proposal is withdrawn
W  a barrier waits in a channel, and a call of a slow step lasts, at most as long as a scenario says
W  a channel whose elements were all taken has no queued bytes
"""

from collections import deque

from penstock.contract.control_messages import MembersFile
from penstock.contract.ids import Attempt, BlobName, ChannelId, Epoch, TaskId, Term, Version
from penstock.contract.latest import Latest
from penstock.model.elements import Barrier, Watermark
from sim.kernel.kernel import Violation


class ChannelOrder:
    """The watermarks and barriers of one channel, as they were put and as they leave."""

    def __init__(self) -> None:
        """Begin with an empty channel."""
        self._put_us: int | None = None
        self._sent_us: int | None = None
        self._due: deque[int | None] = deque()

    def put(self, element: object) -> None:
        """Note what a task puts on the channel."""
        match element:
            case Watermark(time_us):
                self._put_us = time_us
            case Barrier():
                self._due.append(self._put_us)

    def sent(self, element: object) -> None:
        """Check an element that leaves. A later watermark may replace an unsent one, not overtake it."""
        match element:
            case Watermark(time_us):
                self._sent_us = time_us
            case Barrier(_, epoch):
                due = self._due.popleft()
                if due != self._sent_us:
                    raise Violation("O", f"barrier {epoch} overtakes the watermark {due}")


class ProtocolMonitor:
    """Knows the committed and the proposed version. Raises Violation."""

    def __init__(self) -> None:
        """Begin with an empty store."""
        self._latest: Latest | None = None
        self._proposed = Version(0)
        self._committed: dict[tuple[Attempt, Epoch], Term] = {}
        self._aborted: dict[tuple[Attempt, Epoch], Term] = {}
        self._cuts: set[tuple[Attempt, TaskId, Term, Epoch]] = set()
        self._put_us: dict[tuple[Attempt, ChannelId, Term, Epoch], int] = {}
        self.barrier_max_us: int | None = None
        self.call_max_us: int | None = None

    # --- Facts

    def learn(self, latest: Latest, members: MembersFile | None) -> None:
        """Remember the job's object and the members file that it names."""
        self._latest = latest
        table = members.proposed if members is not None else None
        self._proposed = table.version if table is not None else Version(0)

    def committed(self, attempt: Attempt, term: Term, epoch: Epoch) -> None:
        """An epoch is committed: no engine may have been told by this term that it is aborted."""
        self._committed[attempt, epoch] = term
        if self._aborted.get((attempt, epoch)) == term:
            raise Violation("G", f"epoch {epoch} is committed by term {term}, which aborted it")

    def barrier_put(self, attempt: Attempt, channel: ChannelId, barrier: Barrier, now_us: int) -> None:
        """A task puts a barrier on a channel."""
        self._put_us[attempt, channel, barrier.term, barrier.epoch] = now_us

    # --- Promises

    def barrier_taken(self, attempt: Attempt, channel: ChannelId, barrier: Barrier, now_us: int) -> None:
        """A task takes a barrier from a channel."""
        put_us = self._put_us.pop((attempt, channel, barrier.term, barrier.epoch), now_us)
        if self.barrier_max_us is not None and now_us - put_us > self.barrier_max_us:
            waited_s = (now_us - put_us) / 1_000_000
            raise Violation("W", f"barrier {barrier.epoch} waited {waited_s:.3f} s in {channel}")

    def call(self, task: TaskId, took_us: int) -> None:
        """One call of the steps of a task."""
        if self.call_max_us is not None and took_us > self.call_max_us:
            raise Violation("W", f"a call of {task} takes {took_us / 1_000_000:.3f} s")

    def emptied(self, channel: ChannelId, queued_bytes: int) -> None:
        """The last element of a queue was taken."""
        if queued_bytes:
            raise Violation("W", f"{channel} is empty and counts {queued_bytes} bytes as queued")

    def cut(self, attempt: Attempt, task: TaskId, term: Term, epoch: Epoch) -> None:
        """A task cuts at a barrier."""
        cut = (attempt, task, term, epoch)
        if cut in self._cuts:
            raise Violation("C", f"task {task} cuts again at epoch {epoch} of term {term}")
        self._cuts.add(cut)

    def aborted(self, attempt: Attempt, term: Term, epoch: Epoch) -> None:
        """An engine is told that an epoch is aborted."""
        self._aborted[attempt, epoch] = term
        by = self._committed.get((attempt, epoch))
        if by is not None and by <= term:
            raise Violation("G", f"term {term} aborts epoch {epoch}, which term {by} committed")

    def let_in(self, channel: ChannelId, mine: Attempt, theirs: Attempt) -> None:
        """A worker accepts a stream."""
        if mine != theirs:
            raise Violation("G", f"{channel} of attempt {theirs} is let in by attempt {mine}")

    def goes_on(self, attempt: Attempt, version: Version) -> None:
        """A task that was frozen for a rescale runs again."""
        at = self._latest
        if at is not None and at.attempt == attempt and at.version > version:
            raise Violation("G", f"a task goes on in version {version}, {at.version} is committed")

    def missing(self, attempt: Attempt, version: Version, name: BlobName) -> None:
        """A worker that prepares for a proposed version finds a file gone."""
        at = self._latest
        if at is None or at.attempt != attempt or self._proposed != version:
            return
        if at.version < version:
            raise Violation("C", f"{name} is gone while version {version} is being prepared")
