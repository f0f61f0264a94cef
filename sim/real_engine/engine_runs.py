"""Runs seeds of real engines. Each process is prepared once, see :mod:`sim.real_engine.install`."""

import logging
import shutil
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from multiprocessing import get_context
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.errors import PenstockError
from sim.kernel.cases import RunCase, RunResult
from sim.kernel.faults import AT_EVERY_EFFECT, CrashAt, Faults, Verdict
from sim.kernel.garbage import spare_the_collector
from sim.kernel.kernel import Streams, Violation
from sim.real_engine.install import install
from sim.real_engine.mutants import MUTANTS
from sim.real_engine.scenarios import SCENARIOS

if TYPE_CHECKING:
    from sim.real_engine.prepared_job import PreparedJob

MEMORY = Path("/dev/shm")  # the input and scratch files: small, and gone after the run


@dataclass(frozen=True, slots=True)
class EngineCase(RunCase):
    """A run of real engines."""

    def program(self) -> str:
        """Return the command of real engines for this seed."""
        return f"python -m sim.real_engine --scenario {self.scenario} --seeds {self.seed}..{self.seed}"


@dataclass(slots=True, kw_only=True)
class EngineResult(RunResult):
    """The outcome of a run. ``rule`` may be a letter of :mod:`sim.real_engine.checker`."""

    case: EngineCase
    points: int = 0
    switches: int = 0
    stuck: int = 0
    wall_s: float = 0.0

    def __str__(self) -> str:
        """Return one line; after a violation also the command that repeats the run."""
        how = f"{self.rule} {self.text}\n  repeat: {self.case.command()}\n " if self.rule else "ok"
        return (
            f"{self.case.scenario} {self.case.seed} {how} trace={self.trace} points={self.points} "
            f"switches={self.switches} virtual={self.virtual_s:.1f} s wall={self.wall_s:.2f} s"
        )


class Prepared:
    """What a prepared process has: a folder, and the jobs that it has run, by name."""

    folder: Path
    jobs: "dict[str, PreparedJob]"

    @classmethod
    def job(cls, name: str) -> "PreparedJob":
        """Return a job of the table."""
        from sim.real_engine.prepared_job import prepared  # noqa: PLC0415 - after the twins

        if name not in cls.jobs:
            cls.jobs[name] = prepared(name, cls.folder)
            spare_the_collector()
        return cls.jobs[name]


def prepare(mutant: str | None = None) -> None:
    """Prepare this process for good."""
    install(MUTANTS[mutant].patches if mutant else ())
    logging.disable()
    folder = Path(tempfile.mkdtemp(prefix="simulated-engines-", dir=MEMORY if MEMORY.is_dir() else None))
    Finalize(None, shutil.rmtree, (folder,), {"ignore_errors": True}, exitpriority=0)
    Prepared.folder, Prepared.jobs = folder, {}


def run_case(case: EngineCase, *, keep_trace: bool = False) -> EngineResult:
    """Run once, in a prepared process."""
    from sim.real_engine.world import EngineWorld  # noqa: PLC0415 - after the twins

    scenario = SCENARIOS[case.scenario]
    job, began = Prepared.job(scenario.job), time.perf_counter()
    faults = None if case.crash is None else Faults(Streams(case.seed).faults, single=case.crash)
    world = EngineWorld(scenario, case.seed, job, faults)
    world.kernel.lines = [] if keep_trace else None
    result = EngineResult(case=case)
    try:
        world.run()
    except Violation as violation:
        result.rule, result.text = violation.rule, str(violation)
        world.kernel.log("".join(traceback.format_exception(violation)))
    except (PenstockError, OSError, AssertionError) as error:
        result.rule, result.text = "X", f"{type(error).__name__}: {error}"
        world.kernel.log("".join(traceback.format_exception(error)))
    result.trace = world.kernel.trace_hash()
    result.effects, result.virtual_s = world.faults.effects, world.kernel.now_us / 1_000_000
    result.points, result.switches = world.scheduler.points, world.scheduler.switches
    result.injected, result.sometimes, result.lines = world.faults.injected, world.kernel.sometimes, world.kernel.lines
    result.stuck = world.close()
    result.wall_s = time.perf_counter() - began
    return result


def run_all(
    cases: Iterable[EngineCase], *, processes: int = 2, mutant: str | None = None, keep_trace: bool = False
) -> Generator[EngineResult, None, None]:
    """Run cases in order, in processes that are prepared for them, as long as somebody asks for results.

    Processes without a mutant stay for the next call: to prepare one takes longer than many a run.
    """
    run = partial(run_case, keep_trace=keep_trace)
    if mutant is None:
        yield from _lasting(processes).map(run, cases)
        return
    pool = _pool(processes, mutant)
    try:
        yield from _as_asked(pool, run, cases, ahead=processes)
    finally:
        pool.shutdown(cancel_futures=True)


def _as_asked(
    pool: ProcessPoolExecutor, run: Callable[[EngineCase], EngineResult], cases: Iterable[EngineCase], ahead: int
) -> Iterator[EngineResult]:
    """Run at most ``ahead`` cases whose results nobody has asked for: the caller may stop at any result."""
    left = iter(cases)
    begun = deque(pool.submit(run, case) for case in islice(left, ahead))
    while begun:
        yield begun.popleft().result()
        begun += (pool.submit(run, case) for case in islice(left, 1))


def _pool(processes: int, mutant: str | None = None) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(processes, get_context("spawn"), prepare, (mutant,))


_lasting = cache(_pool)


def every_crash(scenario: str, seed: int) -> list[EngineCase]:
    """List three cases for each effect of a run without faults."""
    (quiet,) = run_all([EngineCase(scenario, seed, CrashAt(-1, Verdict.DONE))], processes=1)
    return [
        EngineCase(scenario, seed, CrashAt(index, verdict))
        for index in range(quiet.effects)
        for verdict in AT_EVERY_EFFECT
    ]
