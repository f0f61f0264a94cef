"""The retrier of commands: each command is repeated until a heartbeat shows its effect."""

from dataclasses import dataclass, field

from penstock.contract.control_messages import Command, Envelope
from penstock.contract.ids import Incarnation, JobUid, Ordinal, Term
from penstock.protocol.control_actions import SendCommand
from penstock.protocol.step_context import StepContext


@dataclass(frozen=True, slots=True)
class Address:
    """Where the commands to one incarnation of a worker are sent."""

    ordinal: Ordinal
    incarnation: Incarnation
    keeper: str


@dataclass(slots=True)
class CommandRetrier:
    """Sends each command at once, and again every ``resend_s`` while it is asked for."""

    job_uid: JobUid
    term: Term
    sender: Ordinal
    resend_s: float
    sent: dict[tuple[Incarnation, str, int], float] = field(default_factory=dict)
    wanted: dict[tuple[Incarnation, str, int], float] = field(default_factory=dict)

    def ensure(self, context: StepContext, to: Address, command: Command, number: int) -> None:
        """Repeat ``command`` at intervals. ``number`` distinguishes it from others of its kind."""
        key = (to.incarnation, type(command).__name__, number)
        at = self.wanted.get(key, self.sent.get(key))
        if at is None or context.due_or_wake(at + self.resend_s):
            at = context.now
            self.send(context, to, command)
            context.due_or_wake(at + self.resend_s)
        self.wanted[key] = at

    def send(self, context: StepContext, to: Address, command: Command) -> None:
        """Send once: the receiver also learns the content in another way."""
        envelope = Envelope(self.job_uid, self.term, self.sender, command)
        context.do(SendCommand(to.ordinal, to.keeper, envelope))

    def sweep(self) -> None:
        """End a step: commands that were not asked for in it are forgotten, which bounds them."""
        self.sent = self.wanted
        self.wanted = {}
