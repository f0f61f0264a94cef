"""What was asked for, answered by id: checkpoints, savepoints, a stop; and periodic epochs.

A savepoint is an ordinary committed epoch that stays retained under its request until its files
are copied; complete after its publication and the copy. A stop with a savepoint keeps every later
epoch from starting, or the savepoint would be older than what is committed.

::

    epoch published ──> COPYING into a folder of this try ──durable──> COPIED ──> INDEXING ──> over
                            ▲                                                        │
                            └── WAITING, when it may be tried again <── failed ──────┘

Each try has a folder of its own, so a leader that was deposed harms no copy of the next one. The
index names one folder, and only who still leads orders it: it makes the copy the savepoint.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from penstock.base.limits import COPY_TRIES_MAX, SAVEPOINTS_UNDER_WAY_MAX
from penstock.contract.latest import Answer, Request, Retained
from penstock.contract.manifest import BlobRef
from penstock.model.elements import BarrierKind
from penstock.protocol.control_actions import CopySavepoint, IndexSavepoint
from penstock.protocol.control_events import SavepointCopied, SavepointIndexed, SavepointNotCopied
from penstock.protocol.leader.checkpoint_coordinator import Epochs, Flight
from penstock.protocol.leader.leader_state import Lead

CopyEvent = SavepointCopied | SavepointIndexed | SavepointNotCopied


class Stage(StrEnum):
    """Where the copy of one savepoint is; see the diagram above."""

    WAITING = "waiting"
    COPYING = "copying"
    COPIED = "copied"
    INDEXING = "indexing"


@dataclass(slots=True)
class Copying:
    """A savepoint on its way. ``folder``: of the newest try; ``path``: of what is complete.

    ``retry_at``: when the next try may begin; ``failed``: why each try failed.
    """

    stage: Stage = Stage.WAITING
    folder: str = ""
    retry_at: float = 0.0
    path: str | None = None
    failed: list[str] = field(default_factory=list)

    def is_over(self) -> bool:
        """Say whether it is complete, or was tried often enough."""
        return self.path is not None or len(self.failed) >= COPY_TRIES_MAX


@dataclass(slots=True)
class Requests:
    """``copies``: the savepoints on their way, by request; what no swap has recorded yet."""

    copies: dict[str, Copying] = field(default_factory=dict)

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
            copying = self.copies.setdefault(request, Copying())
            if request not in asked or copying.is_over():
                self._record(lead, request, asked.get(request))
            else:
                _pursue_copy(lead, copying, asked[request], kept.root)

    def _record(self, lead: Lead, request: str, asked: Request | None) -> None:
        """Answer, and let the epoch go the way of all others; a stop ends the job with it."""
        at = lead.latest
        copying = self.copies.pop(request)
        path = copying.path
        answers = at.answers
        if asked is not None:
            text = path if path is not None else f"it was not copied: {copying.failed[-1]}"
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

    def hear_copy(self, lead: Lead, event: CopyEvent) -> None:
        """Keep what became of the try under way; of another term's nothing is known here."""
        copying = self.copies.get(event.request)
        if copying is None or copying.folder != event.folder:
            return
        match event:
            case SavepointCopied():
                copying.stage = Stage.COPIED
            case SavepointIndexed(path=path):
                copying.path = path
            case SavepointNotCopied(request, _, reason):
                lead.say("savepoint-failed", f"request={request} reason={reason!r}")
                copying.stage = Stage.WAITING
                copying.retry_at = lead.desk.now + lead.settings.meta_retry_interval_s
                copying.failed.append(reason)


def _pursue_copy(lead: Lead, copying: Copying, asked: Request, root: BlobRef) -> None:
    """Order the next step of a savepoint: a copy in a folder of its own, then the index."""
    name = asked.argument or asked.id
    if copying.stage is Stage.WAITING and lead.desk.due(copying.retry_at):
        copying.folder = f"{lead.term}-{lead.me.incarnation}-{lead.desk.number()}"
        copying.stage = Stage.COPYING
        lead.desk.do(CopySavepoint(asked.id, name, root, copying.folder))
    elif copying.stage is Stage.COPIED:
        copying.stage = Stage.INDEXING
        lead.desk.do(IndexSavepoint(asked.id, name, root, copying.folder))


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
