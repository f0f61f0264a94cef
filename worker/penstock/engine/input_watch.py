"""Checks repeatedly whether inputs have files that are in no checkpoint, and logs each change once.

Only one worker checks, on a thread of its own. A folder that takes long to list is listed less
often.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.base.errors import PenstockError
from penstock.base.limits import INPUT_LOOK_INTERVAL_S, INPUT_LOOK_SHARE
from penstock.base.threads import Event, Lock, Thread, monotonic
from penstock.contract.control_messages import StageSplits
from penstock.contract.ids import Ordinal, SplitId, StageIndex
from penstock.contract.manifest import RootManifest
from penstock.contract.plan import PhysicalPlan
from penstock.contract.status import InputSeen, passed_text, unread_text
from penstock.ports import ListedSource
from penstock.protocol.state_entries import all_splits_of

log = logging.getLogger(__name__)

LOOKS = Ordinal(0)  # the worker that checks: it exists as long as the job runs


@dataclass(frozen=True, slots=True)
class WatchedInput:
    """A source step whose input can be listed, and the stage that its splits belong to."""

    step: str
    stage: StageIndex
    source: ListedSource


def known_splits(
    root: RootManifest | None, plan: PhysicalPlan, first: tuple[StageSplits, ...]
) -> dict[StageIndex, frozenset[SplitId]]:
    """Return the splits with which an attempt began, by stage: restored, or listed at the start."""
    known = {group.stage: frozenset(s.split for s in group.splits) for group in first}
    for stage in plan.stages if root is not None else ():
        if root is not None and stage.source is not None and stage.index not in known:
            known[stage.index] = frozenset(all_splits_of(root, plan, stage.source))
    return known


class InputWatch:
    """The check of one engine. ``seen`` is the newest result, for people."""

    def __init__(self, watched: tuple[WatchedInput, ...]) -> None:
        """Check nothing before :meth:`start` or :meth:`look`."""
        self.seen: tuple[InputSeen, ...] = ()
        self._watched = watched
        self._known: Mapping[StageIndex, frozenset[SplitId]] | None = None
        self._said: dict[str, tuple[str, str]] = {}
        self._wanted = Event()
        self._over = False
        self._lock = Lock()

    def start(self) -> None:
        """Check at an interval from now on; without an input to check there is no thread."""
        if self._watched:
            Thread(target=self._run, name="input-watch", daemon=True).start()

    def begin(self, known: Mapping[StageIndex, frozenset[SplitId]]) -> None:
        """Compare with the splits of a new attempt from now on, and check soon."""
        self._known = known
        self._wanted.set()

    def stop(self) -> None:
        """End the thread after the present check."""
        self._over = True
        self._wanted.set()

    def look(self) -> float:
        """Check every input now; return how many seconds it took.

        A folder that cannot be listed keeps its last result: reading it will report the error.
        """
        began = monotonic()
        with self._lock:
            old = {seen.step: seen for seen in self.seen}
            found = [self._look_at(watched, old) for watched in self._watched]
            self.seen = tuple(seen for seen in found if seen is not None)
        return monotonic() - began

    def _look_at(self, watched: WatchedInput, old: Mapping[str, InputSeen]) -> InputSeen | None:
        known = None if self._known is None else self._known.get(watched.stage, frozenset())
        if known is None:
            return None
        try:
            seen = watched.source.look(known).of(watched.step)
        except (OSError, PenstockError) as error:
            log.info("event=input_not_listed step=%s reason=%s", watched.step, error)
            return old.get(watched.step)
        self._say(seen)
        return seen

    def _say(self, seen: InputSeen) -> None:
        unread, passed = words = unread_text(seen), passed_text(seen)
        before = self._said.get(seen.step, ("", ""))
        self._said[seen.step] = words
        if unread != before[0]:
            log.warning("event=input_not_read step=%s reason=%r", seen.step, unread or "none left")
        if passed != before[1]:
            log.info("event=input_passed_over step=%s reason=%r", seen.step, passed or "none left")

    def _run(self) -> None:
        while not self._over:
            self._wanted.clear()
            took_s = self.look()
            self._wanted.wait(max(INPUT_LOOK_INTERVAL_S, INPUT_LOOK_SHARE * took_s))
