"""What was asked for, answered by id: checkpoints, savepoints, a stop; and periodic epochs.

A savepoint is an ordinary committed epoch that stays retained under its request until its files
are copied; complete after its publication and the copy. A stop with a savepoint keeps every later
epoch from starting, or the savepoint would be older than what is committed.
"""

from dataclasses import dataclass, field, replace

from penstock.base.limits import COPY_TRIES_MAX, SAVEPOINTS_UNDER_WAY_MAX
from penstock.contract.latest import Answer, Request, Retained
from penstock.model.elements import BarrierKind
from penstock.protocol.actions import CopySavepoint
from penstock.protocol.epochs import Epochs, Flight
from penstock.protocol.events import SavepointCopied, SavepointNotCopied
from penstock.protocol.lead import Lead


@dataclass(slots=True)
class Requests:
    """``copies``: when a request's copy may be begun again, None while it runs.

    ``copied``: folders of finished copies that no swap has recorded yet; ``failed``: why each
    try of a copy failed.
    """

    copies: dict[str, float | None] = field(default_factory=dict)
    copied: dict[str, str] = field(default_factory=dict)
    failed: dict[str, list[str]] = field(default_factory=dict)

    def pursue(self, lead: Lead, epochs: Epochs, settled: bool) -> None:
        """Start the next epoch that is asked for or due; called when one may start.

        The final one only when no rescale is under way (``settled``).
        """
        asked = _unmet(lead)
        stop = next((r for r in asked if r.kind == "stop"), None)
        if stop is not None:
            if stop.argument is not None and not _is_held(lead, stop):
                self._savepoint(lead, epochs, stop)
        elif asked and asked[0].kind == "checkpoint":
            ids = tuple(r.id for r in asked if r.kind == "checkpoint")
            _start(lead, epochs, BarrierKind.CHECKPOINT, requests=ids)
        elif asked and asked[0].kind == "savepoint":
            self._savepoint(lead, epochs, asked[0])
        elif asked:
            known = "known are checkpoint, savepoint, stop"
            _answer(lead, asked[0], f"unknown request {asked[0].kind!r}: {known}")
        elif settled and exhausted(lead):
            if lead.desk.due(epochs.pause_until):
                _start(lead, epochs, BarrierKind.FINAL)
        elif lead.desk.due(epochs.next_at):
            _start(lead, epochs, BarrierKind.CHECKPOINT)

    def _savepoint(self, lead: Lead, epochs: Epochs, asked: Request) -> None:
        under_way = [r for r in lead.latest.retained if r.savepoint is not None]
        if len(under_way) >= SAVEPOINTS_UNDER_WAY_MAX:
            _answer(lead, asked, f"{len(under_way)} savepoints are being copied already")
        else:
            _start(lead, epochs, BarrierKind.SAVEPOINT, keep=asked.id)

    def copy(self, lead: Lead) -> None:
        """Have the files of published savepoints copied, and record what is done."""
        asked = {r.id: r for r in lead.requests()}
        for kept in lead.latest.retained:
            request = kept.savepoint
            if request is None or lead.swaps.busy:
                continue
            if request not in asked or self._is_over(request):
                self._record(lead, request, asked.get(request))
                continue
            at = self.copies.get(request, lead.desk.now)
            if at is not None and lead.desk.due(at):
                self.copies[request] = None
                name = asked[request].argument or request
                lead.desk.do(CopySavepoint(request, name, kept.root))

    def _is_over(self, request: str) -> bool:
        return request in self.copied or len(self.failed.get(request, [])) >= COPY_TRIES_MAX

    def _record(self, lead: Lead, request: str, asked: Request | None) -> None:
        """Answer, and let the epoch go the way of all others; a stop ends the job with it."""
        at = lead.latest
        path = self.copied.pop(request, None)
        tries = self.failed.pop(request, [])
        self.copies.pop(request, None)
        answers = at.answers
        if asked is not None:
            text = path if path is not None else f"it was not copied: {tries[-1]}"
            answers = lead.answers(Answer(request, path is not None, text))
        lead.propose(
            replace(
                at,
                retained=tuple(_released(r, request) for r in at.retained),
                published_through=lead.published_through(),
                stopped=asked is not None and asked.kind == "stop" and path is not None,
                answers=answers,
            )
        )

    def hear_copy(self, lead: Lead, event: SavepointCopied | SavepointNotCopied) -> None:
        """Keep what became of a copy."""
        match event:
            case SavepointCopied(request, path):
                self.copied[request] = path
            case SavepointNotCopied(request, reason):
                lead.say("savepoint-failed", f"request={request} reason={reason!r}")
                self.copies[request] = lead.desk.now + lead.settings.meta_retry_interval_s
                self.failed.setdefault(request, []).append(reason)


def exhausted(lead: Lead) -> bool:
    """Say whether every source task has read all that it owns *under the committed version*."""
    lives = [lead.life(m) for m in lead.admitted()]
    return bool(lives) and all(
        life.term == lead.term
        and life.status.running == lead.latest.attempt
        and life.status.resumed == lead.latest.version
        and life.status.exhausted
        for life in lives
    )


def is_waited_for(lead: Lead) -> bool:
    """Say whether a request, or the end of the input, waits for an epoch."""
    return bool(_unmet(lead)) or exhausted(lead)


def _unmet(lead: Lead) -> list[Request]:
    """List what was asked for and still needs an epoch; a stop in any case."""
    return [r for r in lead.requests() if r.kind == "stop" or not _is_held(lead, r)]


def _is_held(lead: Lead, request: Request) -> bool:
    return any(r.savepoint == request.id for r in lead.latest.retained)


def _start(
    lead: Lead,
    epochs: Epochs,
    kind: BarrierKind,
    *,
    requests: tuple[str, ...] = (),
    keep: str | None = None,
) -> None:
    table = lead.assignment()
    assert table is not None
    deadline = lead.desk.now + lead.settings.checkpoint_timeout_s
    number = epochs.number(lead)
    epochs.start(lead, Flight(number, kind, table, table.tasks(), deadline, requests, keep))


def _answer(lead: Lead, asked: Request, text: str) -> None:
    lead.propose(replace(lead.latest, answers=lead.answers(Answer(asked.id, False, text))))


def _released(kept: Retained, request: str) -> Retained:
    return replace(kept, savepoint=None) if kept.savepoint == request else kept
