"""The source of faults: every effect of a node asks here for its outcome.

An effect is what leaves a process: a message, a swap, a file, a publication. A crash between two
steps that only touch memory looks the same as a crash before the next effect. Each effect has three
outcomes: done, failed, unknown. Unknown means: done, perhaps later, and the reply was lost. The
process may also die before or after the effect.
"""

from dataclasses import dataclass, field
from enum import Enum
from random import Random


class Verdict(Enum):
    """The outcome of one effect."""

    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"
    CRASH_BEFORE = "before"
    CRASH_AFTER = "after"


# One run each at every effect: the process dies before it or after it, or its reply is lost.
AT_EVERY_EFFECT = (Verdict.CRASH_BEFORE, Verdict.CRASH_AFTER, Verdict.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Rates:
    """The probability of each verdict other than DONE, for one kind of effect."""

    failed: float = 0.0
    unknown: float = 0.0
    crash: float = 0.0


@dataclass(frozen=True, slots=True)
class CrashAt:
    """One fault at one effect: the ``index``-th of the run, counted from 0."""

    index: int
    verdict: Verdict


def parse_crash(text: str) -> CrashAt:
    """Read ``K:before``, ``K:after``, ``K:unknown`` or ``K:failed``. Raises ValueError."""
    index, _, verdict = text.partition(":")
    return CrashAt(int(index), Verdict(verdict))


@dataclass(slots=True)
class Faults:
    """Decides the verdict of every effect, and counts the effects and what was injected.

    ``kept``: of the faults that are drawn, in order, only those with these numbers happen. None: all.
    """

    stream: Random
    rates: dict[str, Rates] = field(default_factory=dict)
    single: CrashAt | None = None
    only: str | None = None
    kept: frozenset[int] | None = None
    quiet: bool = False
    drawn: int = 0
    effects: int = 0
    injected: dict[str, int] = field(default_factory=dict)

    def verdict(self, kind: str) -> Verdict:
        """Return the outcome of the next effect of this kind."""
        index = self.effects
        self.effects += 1
        if self.single is not None:
            return self._one(index, kind)
        if self.quiet or kind not in self.rates:
            return Verdict.DONE
        return self._drawn(kind, self.rates[kind])

    def _one(self, index: int, kind: str) -> Verdict:
        assert self.single is not None
        if index != self.single.index:
            return Verdict.DONE
        self._count(kind, self.single.verdict)
        return self.single.verdict

    def _drawn(self, kind: str, rates: Rates) -> Verdict:
        drawn = self.stream.random()
        if drawn >= rates.failed + rates.unknown + rates.crash:
            return Verdict.DONE
        if drawn < rates.failed:
            verdict = Verdict.FAILED
        elif drawn < rates.failed + rates.unknown:
            verdict = Verdict.UNKNOWN
        else:
            verdict = self.stream.choice((Verdict.CRASH_BEFORE, Verdict.CRASH_AFTER))
        number = self.drawn
        self.drawn += 1
        if self.kept is not None and number not in self.kept:
            return Verdict.DONE
        self._count(kind, verdict)
        return verdict

    def _count(self, kind: str, verdict: Verdict) -> None:
        key = f"{kind}:{verdict.value}"
        self.injected[key] = self.injected.get(key, 0) + 1
