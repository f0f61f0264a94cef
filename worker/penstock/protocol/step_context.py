"""The context of a step: the time, the actions and the next alarm, shared by all parts of one core.

A core that is woken much later than it asked for stood still meanwhile: its process was stopped, or
its machine. It received no message in that time, so that time does not count as silence of others.

Numbers, swap ids and file names are unique: ``life`` is a UUID of one process, and the counter
never goes back. So a core needs no source of randomness.
"""

from dataclasses import dataclass, field

from penstock.base.limits import HEARTBEAT_INTERVAL_S
from penstock.contract.ids import BlobName, Epoch, Incarnation, SwapId, Term, blob_name
from penstock.protocol.control_actions import Action, Note


@dataclass(frozen=True, slots=True)
class Sign:
    """The time of a sign of life, and how long this core had stood still until then."""

    at: float = 0.0
    absent_s: float = 0.0


@dataclass(slots=True)
class StepContext:
    """One per core. :meth:`due_or_wake` is the only way to wait: it also sets the alarm.

    A step that comes more than ``late_s`` after its alarm is late. ``absent_s`` is the sum of all
    delays since this core began.
    """

    life: Incarnation
    late_s: float = HEARTBEAT_INTERVAL_S
    absent_s: float = 0.0
    now: float = 0.0
    actions: list[Action] = field(default_factory=list)
    alarm: float | None = None
    counter: int = 0

    def begin(self, now: float) -> None:
        """Start a step at ``now``, seconds that never go back."""
        assert now >= self.now, f"time went back from {self.now} to {now}"
        if self.alarm is not None and now - self.alarm > self.late_s:
            self.absent_s += now - self.alarm
        self.now = now
        self.actions = []
        self.alarm = None

    def due_or_wake(self, at: float) -> bool:
        """Return whether ``at`` is reached. If not, the core asks to be woken then."""
        if self.now >= at:
            return True
        self.alarm = at if self.alarm is None else min(self.alarm, at)
        return False

    def sign(self) -> Sign:
        """Return the moment of this step, as a sign of life of the sender of its event."""
        return Sign(self.now, self.absent_s)

    def silent_at(self, heard: Sign, timeout_s: float, excused_s_max: float) -> float:
        """Return when the sender of the sign ``heard`` has been silent for ``timeout_s``.

        Time in which this core stood still since then does not count, up to ``excused_s_max``. The
        bound exists because a core that is late at every step must notice a loss, too.
        """
        return heard.at + timeout_s + min(self.absent_s - heard.absent_s, excused_s_max)

    def do(self, action: Action) -> None:
        """Add an action to this step."""
        self.actions.append(action)

    def log(self, text: str) -> None:
        """Log a change of state."""
        self.actions.append(Note(text))

    def number(self) -> int:
        """Return a number that this core has not returned before."""
        self.counter += 1
        return self.counter

    def swap_id(self) -> SwapId:
        """Return an id that no swap has had."""
        return SwapId(f"{self.life}-{self.number()}")

    def file_name(self, term: Term, epoch: Epoch, suffix: str) -> BlobName:
        """Return a name that no file has had."""
        return blob_name(term, epoch, self.life, self.number(), suffix)
