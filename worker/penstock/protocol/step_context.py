"""What every part of one core works on during a step: the time, the actions, the next alarm.

A core that asked to be woken and was woken much later stood still meanwhile: its process was
stopped, or its machine was. It heard nobody in that time, so that time is no silence of others.

Numbers, swap ids and file names are fresh because ``life`` is a UUID of one process's life and
the counter never goes back: the core needs no source of randomness.
"""

from dataclasses import dataclass, field

from penstock.base.limits import HEARTBEAT_INTERVAL_S
from penstock.contract.ids import BlobName, Epoch, Incarnation, SwapId, Term, blob_name
from penstock.protocol.control_actions import Action, Note


@dataclass(frozen=True, slots=True)
class Sign:
    """When somebody was heard, and for how long this core had stood still until then."""

    at: float = 0.0
    absent_s: float = 0.0


@dataclass(slots=True)
class StepContext:
    """One per core. ``due`` is the only way to wait: it also sets the alarm that ends the wait.

    A step that comes more than ``late_s`` after its alarm is late; ``absent_s`` is the sum of all
    lateness in the life of this core.
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
        """Return whether ``at`` is reached; otherwise the core asks to be woken then."""
        if self.now >= at:
            return True
        self.alarm = at if self.alarm is None else min(self.alarm, at)
        return False

    def sign(self) -> Sign:
        """Return the moment of this step, for whoever is heard in it."""
        return Sign(self.now, self.absent_s)

    def silent_at(self, heard: Sign, timeout_s: float, excused_s_max: float) -> float:
        """Return when somebody last heard at ``heard`` has been silent for ``timeout_s``.

        Time in which this core stood still since then is no silence, up to ``excused_s_max``: a
        core that is late at every turn has to judge some time.
        """
        return heard.at + timeout_s + min(self.absent_s - heard.absent_s, excused_s_max)

    def do(self, action: Action) -> None:
        """Add an action to this step's."""
        self.actions.append(action)

    def log(self, text: str) -> None:
        """Log a change of state."""
        self.actions.append(Note(text))

    def number(self) -> int:
        """Return a number that this life never gave before."""
        self.counter += 1
        return self.counter

    def swap_id(self) -> SwapId:
        """Return an id that no swap ever had."""
        return SwapId(f"{self.life}-{self.number()}")

    def file_name(self, term: Term, epoch: Epoch, suffix: str) -> BlobName:
        """Return a name that no file ever had."""
        return blob_name(term, epoch, self.life, self.number(), suffix)
