"""An early takeover: the leader's keeper refuses connections, so nobody waits for its Lease.

::

    WATCHING ──two refusals at one address──> READING (-latest: is that the leader's address?)
       ▲                                          │ two workers       │ more
       │                                          │                   ▼
       │                                          │     ASKING (members file, then Suspect to all
       │                                          ▼      others; one Confirm is enough)
       └──── time is up, or it is not ───────── SEIZE the Lease, exactly as it was read

It only decides who tries. A leader that lives on behind a closed port loses the Lease by a
conflict; and whatever it still does is fenced by the term, as always.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from penstock.contract.control import Confirm, Envelope, MembersFile, Suspect
from penstock.contract.ids import Term
from penstock.contract.latest import Latest, Leader
from penstock.contract.manifest import BlobRef
from penstock.protocol.control_actions import BlobKind, ReadBlob, ReadLatest, SendReport
from penstock.protocol.control_events import BlobRead, BlobUnreadable, LatestRead, LatestUnreadable
from penstock.protocol.settings import ControlSettings
from penstock.protocol.step_context import StepContext

REFUSALS = 2


class TakeoverStage(StrEnum):
    """Where a takeover is; see the diagram above."""

    WATCHING = "watching"
    READING = "reading"
    FETCHING = "fetching"
    ASKING = "asking"


@dataclass(slots=True)
class Takeover:
    """``refused``: per address, how many dials in a row were refused, and when the last one was."""

    settings: ControlSettings
    me: Leader
    refused: dict[str, tuple[int, float]] = field(default_factory=dict)
    stage: TakeoverStage = TakeoverStage.WATCHING
    address: str = ""
    token: int = 0
    until: float = 0.0
    record: Latest | None = None
    ref: BlobRef | None = None

    def _fresh_s(self) -> float:
        return self.settings.heartbeat_timeout_s

    def refuse(self, context: StepContext, address: str) -> None:
        """Count a refused dial; the second in a row starts an inquiry."""
        count, at = self.refused.pop(address, (0, context.now))
        count = count + 1 if context.now - at < self._fresh_s() else 1
        fresh = {a: r for a, r in self.refused.items() if context.now - r[1] < self._fresh_s()}
        self.refused = {**fresh, address: (count, context.now)}
        if count >= REFUSALS and self.stage is TakeoverStage.WATCHING:
            self.stage, self.address = TakeoverStage.READING, address
            self.until = context.now + self._fresh_s()
            self.token = context.number()
            context.do(ReadLatest(self.token))

    def suspects(self, context: StepContext, address: str) -> bool:
        """Say whether ``address`` has refused this keeper's own last dials."""
        count, at = self.refused.get(address, (0, 0.0))
        return count >= REFUSALS and context.now - at < self._fresh_s()

    def on_event(
        self, context: StepContext, event: LatestRead | LatestUnreadable | BlobRead | BlobUnreadable
    ) -> str | None:
        """Take what was read; return the leader's life when its Lease may be seized."""
        match event:
            case LatestRead(token, record) if token == self.token and self._is(
                TakeoverStage.READING
            ):
                return self._judge(context, record)
            case BlobRead(ref, MembersFile() as file) if ref == self.ref and self._is(
                TakeoverStage.FETCHING
            ):
                self._ask(context, file)
            case LatestUnreadable(token, _) if token == self.token:
                self.stage = TakeoverStage.WATCHING
            case BlobUnreadable(ref, _, _) if ref == self.ref:
                self.stage = TakeoverStage.WATCHING
            case _:
                pass
        return None

    def _is(self, stage: TakeoverStage) -> bool:
        return self.stage is stage

    def _judge(self, context: StepContext, record: Latest | None) -> str | None:
        self.stage = TakeoverStage.WATCHING
        if record is None or record.leader is None or record.leader.address != self.address:
            return None
        if record.workers <= 2:
            return record.leader.incarnation
        if record.members is not None:
            self.stage, self.record, self.ref = TakeoverStage.FETCHING, record, record.members
            context.do(ReadBlob(record.members, BlobKind.MEMBERS))
        return None

    def _ask(self, context: StepContext, file: MembersFile) -> None:
        assert self.record is not None
        self.stage = TakeoverStage.ASKING
        suspect = Suspect(self.address, self.me.address)
        envelope = Envelope(self.record.job_uid, Term(0), self.me.ordinal, suspect)
        for member in file.members:
            if member.keeper not in (self.address, self.me.address):
                context.do(SendReport(member.keeper, envelope))

    def on_report(self, context: StepContext, envelope: Envelope) -> str | None:
        """Answer another's question, or take the answer to ours; as :meth:`absorb`."""
        match envelope.body:
            case Suspect(leader, keeper):
                if self.suspects(context, leader):
                    answer = Envelope(envelope.job_uid, Term(0), self.me.ordinal, Confirm(leader))
                    context.do(SendReport(keeper, answer))
            case Confirm(leader):
                asked = self.stage is TakeoverStage.ASKING and leader == self.address
                if asked and self.record is not None and self.record.leader is not None:
                    self.stage = TakeoverStage.WATCHING
                    return self.record.leader.incarnation
            case _:
                pass
        return None

    def reconcile(self, context: StepContext) -> None:
        """End an inquiry that leads nowhere."""
        if self.stage is not TakeoverStage.WATCHING and context.due_or_wake(self.until):
            self.stage = TakeoverStage.WATCHING
