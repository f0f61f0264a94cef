"""Requests of the user (checkpoints, savepoints, a stop), answered by id, and periodic checkpoints.

A savepoint is an ordinary committed epoch. Its request keeps the epoch retained until the files
are copied. The savepoint is complete when its output is published and its files are copied. A stop
with a savepoint keeps later epochs from starting. Otherwise the savepoint would be older than the
newest committed epoch. The copy of a published savepoint goes through these stages:

::

    WAITING  ──> COPYING
    COPYING  ──> COPIED, WAITING
    COPIED   ──> INDEXING
    INDEXING ──> WAITING

A copy that fails is tried again from WAITING, a bounded number of times. A copy that is indexed is
the savepoint.

Each try has a folder of its own, so a deposed leader cannot harm the copy of its successor. The
index names one folder. Only a leader that still leads orders the index.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from penstock.base.limits import COPY_TRIES_MAX, SAVEPOINTS_UNDER_WAY_MAX
from penstock.base.values import replace
from penstock.contract.latest import Answer, Request, Retained
from penstock.contract.manifest import BlobRef
from penstock.model.elements import BarrierKind
from penstock.protocol.core_context import checked
from penstock.protocol.keeper_core_messages import (
    CopySavepoint,
    IndexSavepoint,
    SavepointCopied,
    SavepointIndexed,
    SavepointNotCopied,
)
from penstock.protocol.leader.checkpoint_coordinator import (
    CheckpointCoordinator,
    InFlightCheckpoint,
)
from penstock.protocol.leader.leader_state import LeaderState

CopyEvent = SavepointCopied | SavepointIndexed | SavepointNotCopied


class RequestStage(StrEnum):
    """Where the copy of one savepoint is; see the diagram above."""

    WAITING = "waiting"
    COPYING = "copying"
    COPIED = "copied"
    INDEXING = "indexing"


TRANSITIONS: dict[RequestStage, tuple[RequestStage, ...]] = {
    RequestStage.WAITING: (RequestStage.COPYING,),
    RequestStage.COPYING: (RequestStage.COPIED, RequestStage.WAITING),
    RequestStage.COPIED: (RequestStage.INDEXING,),
    RequestStage.INDEXING: (RequestStage.WAITING,),
}


@dataclass(slots=True)
class Copying:
    """The copy of one savepoint.

    - ``folder``: the folder of the newest try; ``path``: where the complete savepoint is.
    - ``retry_at``: when the next try may begin; ``failed``: why each try has failed.
    """

    stage: RequestStage = RequestStage.WAITING
    folder: str = ""
    retry_at: float = 0.0
    path: str | None = None
    failed: list[str] = field(default_factory=list)

    def enter(self, stage: RequestStage) -> None:
        """Change the stage. Raises AssertionError when the table has no such transition."""
        self.stage = checked(TRANSITIONS, self.stage, stage)

    def is_over(self) -> bool:
        """Return whether the copy is complete, or was tried as often as is allowed."""
        return self.path is not None or len(self.failed) >= COPY_TRIES_MAX


@dataclass(slots=True)
class UserRequests:
    """``copies``: the savepoints that are being copied, by request, until a swap records them."""

    copies: dict[str, Copying] = field(default_factory=dict)

    def reconcile(self, state: LeaderState, checkpoints: CheckpointCoordinator, settled: bool) -> None:
        """Start the next epoch that is requested or due; called when an epoch may start.

        The final epoch starts only when no rescale is under way (``settled``).
        """
        asked = _unmet(state)
        stop = next((r for r in asked if r.kind == "stop"), None)
        if stop is not None:
            if stop.argument is not None and not _is_held(state, stop):
                self._savepoint(state, checkpoints, stop)
        elif asked and asked[0].kind == "checkpoint":
            ids = tuple(r.id for r in asked if r.kind == "checkpoint")
            _start(state, checkpoints, BarrierKind.CHECKPOINT, requests=ids)
        elif asked and asked[0].kind == "savepoint":
            self._savepoint(state, checkpoints, asked[0])
        elif asked:
            known = "known are checkpoint, savepoint, stop"
            _answer(state, asked[0], f"unknown request {asked[0].kind!r}: {known}")
        elif settled and exhausted(state):
            if state.context.due_or_wake(checkpoints.pause_until):
                _start(state, checkpoints, BarrierKind.FINAL)
        elif state.context.due_or_wake(checkpoints.next_at):
            _start(state, checkpoints, BarrierKind.CHECKPOINT)

    def _savepoint(self, state: LeaderState, checkpoints: CheckpointCoordinator, asked: Request) -> None:
        under_way = [r for r in state.latest.retained if r.savepoint is not None]
        if len(under_way) >= SAVEPOINTS_UNDER_WAY_MAX:
            _answer(state, asked, f"{len(under_way)} savepoints are being copied already")
        else:
            _start(state, checkpoints, BarrierKind.SAVEPOINT, keep=asked.id)

    def copy(self, state: LeaderState) -> None:
        """Order the copies of published savepoints, and record those that are over."""
        asked = {r.id: r for r in state.requests()}
        for kept in state.latest.retained:
            request = kept.savepoint
            if request is None or state.cas.busy:
                continue
            copying = self.copies.setdefault(request, Copying())
            if request not in asked or copying.is_over():
                self._record(state, request, asked.get(request))
            else:
                _order_copy_step(state, copying, asked[request], kept.root)

    def _record(self, state: LeaderState, request: str, asked: Request | None) -> None:
        """Answer the request and release its epoch. A stop ends the job in the same swap."""
        at = state.latest
        copying = self.copies.pop(request)
        path = copying.path
        answers = at.answers
        if asked is not None:
            text = path if path is not None else f"it was not copied: {copying.failed[-1]}"
            epoch = next(kept.epoch for kept in at.retained if kept.savepoint == request)
            answers = state.answers(Answer(request, path is not None, text, epoch))
        state.propose(
            replace(
                at,
                retained=tuple(_released(r, request) for r in at.retained),
                published_through=state.published_through(),
                stopped=asked is not None and asked.kind == "stop" and path is not None,
                answers=answers,
            )
        )

    def on_savepoint_copied(self, state: LeaderState, event: CopyEvent) -> None:
        """Take the outcome of the try under way. Outcomes of another term's tries are dropped."""
        copying = self.copies.get(event.request)
        if copying is None or copying.folder != event.folder:
            return
        match event:
            case SavepointCopied():
                copying.enter(RequestStage.COPIED)
            case SavepointIndexed(path=path):
                copying.path = path
            case SavepointNotCopied(request, _, reason):
                state.log_once("savepoint-failed", f"request={request} reason={reason!r}")
                copying.enter(RequestStage.WAITING)
                copying.retry_at = state.context.now + state.settings.meta_retry_interval_s
                copying.failed.append(reason)


def _order_copy_step(state: LeaderState, copying: Copying, asked: Request, root: BlobRef) -> None:
    """Order the next step of a savepoint: a copy into a folder of its own, then the index."""
    name = asked.argument or asked.id
    if copying.stage is RequestStage.WAITING and state.context.due_or_wake(copying.retry_at):
        copying.folder = f"{state.term}-{state.me.incarnation}-{state.context.number()}"
        copying.enter(RequestStage.COPYING)
        state.context.do(CopySavepoint(asked.id, name, root, copying.folder))
    elif copying.stage is RequestStage.COPIED:
        copying.enter(RequestStage.INDEXING)
        state.context.do(IndexSavepoint(asked.id, name, root, copying.folder))


def exhausted(state: LeaderState) -> bool:
    """Return whether every source task has read all its splits *under the committed version*."""
    lives = [state.life(m) for m in state.admitted()]
    return bool(lives) and all(
        life.term == state.term
        and life.status.running == state.latest.attempt
        and life.status.resumed == state.latest.version
        and life.status.exhausted
        for life in lives
    )


def is_waited_for(state: LeaderState) -> bool:
    """Return whether a request, or the end of the input, waits for an epoch."""
    return bool(_unmet(state)) or exhausted(state)


def _unmet(state: LeaderState) -> list[Request]:
    """List the requests that still need an epoch, and every stop."""
    return [r for r in state.requests() if r.kind == "stop" or not _is_held(state, r)]


def _is_held(state: LeaderState, request: Request) -> bool:
    return any(r.savepoint == request.id for r in state.latest.retained)


def _start(
    state: LeaderState,
    checkpoints: CheckpointCoordinator,
    kind: BarrierKind,
    *,
    requests: tuple[str, ...] = (),
    keep: str | None = None,
) -> None:
    table = state.assignment()
    assert table is not None
    deadline = state.context.now + state.settings.checkpoint_timeout_s
    number = checkpoints.number(state)
    checkpoints.start(state, InFlightCheckpoint(number, kind, table, table.tasks(), deadline, requests, keep))


def _answer(state: LeaderState, asked: Request, text: str) -> None:
    state.propose(replace(state.latest, answers=state.answers(Answer(asked.id, False, text))))


def _released(kept: Retained, request: str) -> Retained:
    return replace(kept, savepoint=None) if kept.savepoint == request else kept
