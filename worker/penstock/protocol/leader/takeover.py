"""An early takeover: nobody waits for the Lease of a leader whose keeper refuses connections.

::

    WATCHING ──> READING
    READING  ──> FETCHING, WATCHING
    FETCHING ──> ASKING, WATCHING
    ASKING   ──> WATCHING

- WATCHING: refused dials are counted. Two refusals in a row at one address begin an inquiry.
- READING: -latest says whether the address is that of the leader. A job of two workers has no
  further witness, so the Lease may be taken at once.
- FETCHING: the members file says which other workers there are.
- ASKING: all other keepers get Suspect. One Confirm is enough to take the Lease.

An inquiry that takes too long ends in WATCHING. The Lease is taken exactly as it was read.

A takeover only decides which keeper tries to lead. A leader that lives on behind a closed port
loses the Lease by a conflict, and the term fences everything that such a leader still does.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from penstock.contract.control_messages import Confirm, Envelope, MembersFile, Suspect
from penstock.contract.ids import Term
from penstock.contract.latest import Latest, Leader
from penstock.contract.manifest import BlobRef
from penstock.protocol.core_context import ControlSettings, StepContext, checked
from penstock.protocol.keeper_core_messages import (
    BlobKind,
    BlobRead,
    BlobUnreadable,
    LatestRead,
    LatestUnreadable,
    ReadBlob,
    ReadLatest,
    SendReport,
)

REFUSALS = 2


class TakeoverStage(StrEnum):
    """Where a takeover is; see the diagram above."""

    WATCHING = "watching"
    READING = "reading"
    FETCHING = "fetching"
    ASKING = "asking"


TRANSITIONS: dict[TakeoverStage, tuple[TakeoverStage, ...]] = {
    TakeoverStage.WATCHING: (TakeoverStage.READING,),
    TakeoverStage.READING: (TakeoverStage.FETCHING, TakeoverStage.WATCHING),
    TakeoverStage.FETCHING: (TakeoverStage.ASKING, TakeoverStage.WATCHING),
    TakeoverStage.ASKING: (TakeoverStage.WATCHING,),
}


@dataclass(slots=True)
class Takeover:
    """``refused``: for each address the number of refused dials in a row, and the last one's time."""

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
            self._enter(TakeoverStage.READING)
            self.address = address
            self.until = context.now + self._fresh_s()
            self.token = context.number()
            context.do(ReadLatest(self.token))

    def suspects(self, context: StepContext, address: str) -> bool:
        """Return whether ``address`` has refused this keeper's own last dials."""
        count, at = self.refused.get(address, (0, 0.0))
        return count >= REFUSALS and context.now - at < self._fresh_s()

    def on_event(
        self, context: StepContext, event: LatestRead | LatestUnreadable | BlobRead | BlobUnreadable
    ) -> str | None:
        """Take what was read; return the leader's life when its Lease may be seized."""
        match event:
            case LatestRead(token, record) if self._reads(token):
                return self._judge(context, record)
            case LatestUnreadable(token, _) if self._reads(token):
                self._enter(TakeoverStage.WATCHING)
            case BlobRead(ref, MembersFile() as file) if self._fetches(ref):
                self._ask(context, file)
            case BlobUnreadable(ref, _, _) if self._fetches(ref):
                self._enter(TakeoverStage.WATCHING)
            case _:
                pass
        return None

    def _reads(self, token: int) -> bool:
        return self.stage is TakeoverStage.READING and token == self.token

    def _fetches(self, ref: BlobRef) -> bool:
        return self.stage is TakeoverStage.FETCHING and ref == self.ref

    def _enter(self, stage: TakeoverStage) -> None:
        self.stage = checked(TRANSITIONS, self.stage, stage)

    def _judge(self, context: StepContext, record: Latest | None) -> str | None:
        """Compare addresses. Return the leader's life when two workers need no other witness."""
        leader = record.leader if record is not None else None
        suspected = leader is not None and leader.address == self.address
        if record is not None and suspected and record.workers > 2 and record.members is not None:
            self._enter(TakeoverStage.FETCHING)
            self.record, self.ref = record, record.members
            context.do(ReadBlob(record.members, BlobKind.MEMBERS))
            return None
        self._enter(TakeoverStage.WATCHING)
        alone = record is not None and record.workers <= 2
        return leader.incarnation if leader is not None and suspected and alone else None

    def _ask(self, context: StepContext, file: MembersFile) -> None:
        assert self.record is not None
        self._enter(TakeoverStage.ASKING)
        suspect = Suspect(self.address, self.me.address)
        envelope = Envelope(self.record.job_uid, Term(0), self.me.ordinal, suspect)
        for member in file.members:
            if member.keeper not in (self.address, self.me.address):
                context.do(SendReport(member.keeper, envelope))

    def on_report(self, context: StepContext, envelope: Envelope) -> str | None:
        """Answer another keeper's question, or take an answer. Returns as :meth:`on_event`."""
        match envelope.body:
            case Suspect(leader, keeper):
                if self.suspects(context, leader):
                    answer = Envelope(envelope.job_uid, Term(0), self.me.ordinal, Confirm(leader))
                    context.do(SendReport(keeper, answer))
            case Confirm(leader):
                asked = self.stage is TakeoverStage.ASKING and leader == self.address
                if asked and self.record is not None and self.record.leader is not None:
                    self._enter(TakeoverStage.WATCHING)
                    return self.record.leader.incarnation
            case _:
                pass
        return None

    def reconcile(self, context: StepContext) -> None:
        """End an inquiry that has taken too long."""
        if self.stage is not TakeoverStage.WATCHING and context.due_or_wake(self.until):
            self._enter(TakeoverStage.WATCHING)
