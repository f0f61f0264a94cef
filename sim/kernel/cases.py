"""What a simulated run depends on, and what it gives. The two simulators add what only they have."""

from argparse import ArgumentTypeError
from dataclasses import dataclass, field

from sim.kernel.faults import CrashAt

EVERY_RUN = slice(None)


def parse_share(text: str) -> slice:
    """Read ``K/N``: of a list of runs each N-th one, from number K on; so 0/N to (N-1)/N are all of them."""
    first, _, shares = text.partition("/")
    if not (first.isdecimal() and shares.isdecimal() and int(first) < int(shares)):
        raise ArgumentTypeError(f"{text} is not K/N, with K from 0 to N - 1")
    return slice(int(first), None, int(shares))


@dataclass(frozen=True, slots=True)
class RunCase:
    """A scenario, its seed, at most one crash at a chosen effect, and at most one mutant."""

    scenario: str
    seed: int
    crash: CrashAt | None = None
    mutant: str | None = None

    def program(self) -> str:
        """Return the command that runs this seed of the scenario without crash and mutant."""
        raise NotImplementedError

    def command(self) -> str:
        """Return the command that repeats exactly this run."""
        parts = [self.program()]
        if self.crash is not None:
            parts.append(f"--crash-at {self.crash.index}:{self.crash.verdict.value}")
        if self.mutant is not None:
            parts.append(f"--mutant {self.mutant}")
        return " ".join(parts)


@dataclass(slots=True)
class RunResult:
    """The outcome of a run. ``rule`` is empty, the letter of a broken promise, or ``X`` for an exception.

    ``effects`` counts the effects at which a fault is possible, ``injected`` the faults by kind, and
    ``sometimes`` how often a rare situation was met. ``lines`` are the events, if they were kept.
    """

    rule: str = ""
    text: str = ""
    trace: str = ""
    effects: int = 0
    virtual_s: float = 0.0
    injected: dict[str, int] = field(default_factory=dict)
    sometimes: dict[str, int] = field(default_factory=dict)
    lines: list[str] | None = None
