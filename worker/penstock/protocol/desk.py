"""What every part of one core works on during a step: the time, the actions, the next alarm.

Numbers, swap ids and file names are fresh because ``life`` is a UUID of one process's life and
the counter never goes back: the core needs no source of randomness.
"""

from dataclasses import dataclass, field

from penstock.contract.ids import BlobName, Epoch, Incarnation, SwapId, Term
from penstock.contract.names import blob_name
from penstock.protocol.actions import Action, Note


@dataclass(slots=True)
class Desk:
    """One per core. ``due`` is the only way to wait: it also sets the alarm that ends the wait."""

    life: Incarnation
    now: float = 0.0
    actions: list[Action] = field(default_factory=list)
    alarm: float | None = None
    counter: int = 0

    def begin(self, now: float) -> None:
        """Start a step at ``now``, seconds that never go back."""
        assert now >= self.now, f"time went back from {self.now} to {now}"
        self.now = now
        self.actions = []
        self.alarm = None

    def due(self, at: float) -> bool:
        """Say whether ``at`` is reached; otherwise the core asks to be woken then."""
        if self.now >= at:
            return True
        self.alarm = at if self.alarm is None else min(self.alarm, at)
        return False

    def do(self, action: Action) -> None:
        """Add an action to this step's."""
        self.actions.append(action)

    def note(self, text: str) -> None:
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
