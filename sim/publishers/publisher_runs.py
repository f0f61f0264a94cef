"""Runs seeds, in a process whose clients are replaced for good. ``python -m sim.publishers`` and the tests use it."""

import logging
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context

from sim.kernel.cases import RunCase
from sim.kernel.kernel import Violation
from sim.mutants.patching import install
from sim.publishers.publisher_mutants import MUTANTS
from sim.publishers.publisher_scenarios import SCENARIOS


@dataclass(frozen=True, slots=True)
class PublisherCase(RunCase):
    """A run of publishers."""

    def program(self) -> str:
        """Return the command for this seed."""
        return f"python -m sim.publishers --scenario {self.scenario} --seeds {self.seed}..{self.seed}"


@dataclass(slots=True)
class PublisherResult:
    """The outcome of a run. ``rule`` is a letter of :mod:`sim.publishers.world`, empty when no promise is broken.

    ``trace`` names what has happened, in short: it is the same for the same seed.
    """

    case: PublisherCase
    rule: str = ""
    text: str = ""
    trace: str = ""
    happened: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        """Return a line; after a violation also the command that repeats the run."""
        how = f"{self.text}\n  repeat: {self.case.command()}" if self.rule else "ok"
        return f"{self.case.scenario} {self.case.seed} {how}"


def run_case(case: PublisherCase) -> PublisherResult:
    """Run once."""
    from sim.publishers.world import PublisherWorld  # noqa: PLC0415 - behind the patches

    world, result = PublisherWorld(SCENARIOS[case.scenario], case.seed), PublisherResult(case)
    try:
        world.run()
    except Violation as violation:
        result.rule, result.text = violation.rule, str(violation)
    finally:
        world.close()
    result.happened, result.trace = world.happened, world.trace.hexdigest()
    return result


def prepare(mutant: str | None) -> None:
    """Prepare this process for good."""
    logging.disable()
    for patch in MUTANTS[mutant].patches if mutant else ():
        install(patch)


def run_all(cases: Iterable[PublisherCase], mutant: str | None = None) -> list[PublisherResult]:
    """Run cases in a process of their own, up to the first that breaks a promise when there is a mutant."""
    with ProcessPoolExecutor(1, get_context("spawn"), prepare, (mutant,)) as process:
        found: list[PublisherResult] = []
        for result in process.map(run_case, cases, chunksize=1 if mutant else 10):
            found.append(result)
            if mutant and result.rule:
                process.shutdown(cancel_futures=True)
                break
        return found
