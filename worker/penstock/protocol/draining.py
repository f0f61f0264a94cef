"""The last checkpoint of a worker that is about to be ended, so that little is done twice.

It is asked for, never forced: an epoch that does not come in time is replayed by the others.
"""

from dataclasses import dataclass

from penstock.base.limits import RESEND_INTERVAL_S
from penstock.contract.control import EngineStatus
from penstock.contract.ids import Epoch
from penstock.protocol.desk import Desk


@dataclass(slots=True)
class Draining:
    """``after`` is the newest epoch whose barrier was here before: only a later one is the last."""

    after: Epoch
    ask_at: float = 0.0

    def asks(self, desk: Desk) -> bool:
        """Say whether the leader is to be asked now: again and again, a new one has not heard."""
        if not desk.due(self.ask_at):
            return False
        self.ask_at = desk.now + RESEND_INTERVAL_S
        desk.due(self.ask_at)
        return True

    def over(self, status: EngineStatus) -> bool:
        """Say whether that epoch is committed and its output visible, or none will come."""
        return status.running == 0 or status.left or status.ended or status.published > self.after
