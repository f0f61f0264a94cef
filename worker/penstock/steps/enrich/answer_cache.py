"""Remembers answers by what was asked. Each task has its own; it is no part of the state."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from penstock.contract.asynchronous import Cache


class AnswerCache:
    """The answers that were used last, for a time. Times are those of ``monotonic``."""

    def __init__(self, most: int, ttl_s: float | None) -> None:
        """Keep up to ``most`` answers, each for ``ttl_s`` seconds (None: for ever)."""
        self._most, self._ttl_s = most, ttl_s
        self._kept: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()

    @staticmethod
    def of(declared: Cache) -> "AnswerCache":
        """Return an empty one, as a step declares it."""
        return AnswerCache(declared.rows, None if declared.ttl_us is None else declared.ttl_us / 1e6)

    def find(self, asked: Hashable, now_s: float) -> Any:
        """Return the answer; None if there is none, or it is too old."""
        found = self._kept.get(asked)
        if found is None:
            return None
        at_s, answer = found
        if self._ttl_s is not None and now_s - at_s > self._ttl_s:
            del self._kept[asked]
            return None
        self._kept.move_to_end(asked)
        return answer

    def keep(self, asked: Hashable, answer: Any, at_s: float) -> None:
        """Keep an answer of a time, unless a newer one is kept. The one that was not used for longest makes room."""
        known = self._kept.get(asked)
        if known is None or known[0] <= at_s:
            self._kept[asked] = at_s, answer
        self._kept.move_to_end(asked)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
