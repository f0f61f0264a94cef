"""The runner: one run, many seeds, a fault at every effect, or mutants; in several processes."""

import os
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from multiprocessing import get_context
from typing import Any

from penstock.base.values import replace
from sim.kernel.cases import RunCase, RunResult
from sim.kernel.faults import AT_EVERY_EFFECT, CrashAt, Faults, parse_crash
from sim.kernel.forks import in_a_fork
from sim.kernel.garbage import spare_the_collector
from sim.kernel.kernel import Streams, Violation
from sim.models.admission_model import AdmissionModel
from sim.models.checkpoint_model import CheckpointModel
from sim.models.search import Small, search
from sim.mutants.patching import change
from sim.mutants.table import Mutant
from sim.scenario_table import SCENARIOS
from sim.shrinking import RunParts, shrink
from sim.world import World

SEARCH_STATES = 50_000
SEARCHES: dict[str, Callable[[], Small[Any]]] = {
    "search-admission": AdmissionModel,
    "search-tasks": CheckpointModel,
}


@dataclass(frozen=True, slots=True)
class Case(RunCase):
    """A run of the simulator. With ``parts``, only these faults and requests happen."""

    parts: RunParts | None = None

    def program(self) -> str:
        """Return the command of the simulator for this seed."""
        only = "" if self.parts is None else f" --only {self.parts}"
        return f"python -m sim --scenario {self.scenario} --seed {self.seed}{only}"


@dataclass(slots=True, kw_only=True)
class Result(RunResult):
    """The outcome of a run; ``runs`` counts the runs that it took to find it."""

    case: Case
    events: int = 0
    parts: RunParts | None = None
    runs: int = 1

    def __str__(self) -> str:
        """Return the result in one line, with the command that repeats it."""
        how = "ok" if not self.rule else f"{self.rule} {self.text}"
        return f"{how}\n  repeat: {self.case.command()}"


def run_case(case: Case, *, keep_trace: bool = False, describe: Callable[[object], str] = repr) -> Result:
    """Run once. An exception of the core is a finding, also a failed assertion.

    ``keep_trace``: the result has a line for each event, which ``describe`` puts in words.
    """
    if case.scenario in SEARCHES:
        return _search(case)
    faults = None
    if case.crash is not None:
        faults = Faults(Streams(case.seed).faults, single=case.crash)
    world = World(SCENARIOS[case.scenario], case.seed, faults, case.parts)
    world.kernel.lines = [] if keep_trace else None
    world.kernel.describe = describe
    result = Result(case=case)
    try:
        world.run()
    except Violation as violation:
        result.rule, result.text = violation.rule, str(violation)
    except Exception as error:  # any error of the core is a finding, reported with its place
        result.rule = "X"
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{os.path.basename(last.filename)}:{last.lineno}"
        result.text = f"{type(error).__name__} at {place}: {error}"
        world.kernel.log("".join(traceback.format_exception(error)))
    result.trace = world.kernel.trace_hash()
    result.effects, result.events = world.faults.effects, world.kernel.handled
    result.virtual_s = world.kernel.now_us / 1_000_000
    result.injected, result.sometimes = world.faults.injected, world.kernel.sometimes
    result.lines, result.parts = world.kernel.lines, world.parts()
    return result


def _search(case: Case) -> Result:
    result = Result(case=case)
    try:
        result.events = search(SEARCHES[case.scenario](), SEARCH_STATES).states
    except Violation as violation:
        result.rule, result.text = violation.rule, str(violation)
    except Exception as error:  # as in a run
        result.rule, result.text = "X", f"{type(error).__name__}: {error}"
    return result


def shrunk(result: Result) -> Result:
    """Return the run with the fewest faults and requests that breaks the same promise as ``result``.

    The run of ``result`` must have broken one. A run with a fault at one effect has nothing to shrink.
    """
    case = result.case
    if not result.rule or result.parts is None or case.crash is not None:
        return result

    def fails(parts: RunParts) -> bool:
        return run_case(replace(case, parts=parts)).rule == result.rule

    return run_case(replace(case, parts=shrink(case.parts or result.parts, fails)))


def run_all(cases: Iterable[Case], processes: int = 2) -> Iterator[Result]:
    """Run many cases, in order. With ``processes`` 1 they run in this process."""
    if processes == 1:
        yield from map(run_case, cases)
        return
    with ProcessPoolExecutor(processes, get_context("spawn"), spare_the_collector) as pool:
        yield from pool.map(run_case, cases, chunksize=8)


def seeds(scenario: str, numbers: Iterable[int]) -> list[Case]:
    """List one case per seed."""
    return [Case(scenario, number) for number in numbers]


def every_crash(scenario: str, seed: int) -> list[Case]:
    """List three cases for every effect of a run without faults: crash before, crash after, lost reply."""
    quiet = run_case(Case(scenario, seed))
    points = range(quiet.effects)
    make = partial(Case, scenario, seed)
    return [make(CrashAt(index, verdict)) for index in points for verdict in AT_EVERY_EFFECT]


def hunt_all(mutants: Iterable[Mutant], runs_max: int, processes: int = 2) -> Iterator[Result]:
    """Hunt each mutant in a fork. The fork has imported the core and changes it in place."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_hunted, mutants, repeat(runs_max))


def _hunted(mutant: Mutant, runs_max: int) -> Result:
    def changed() -> Result:
        change(mutant.patches)
        return hunt(mutant, runs_max)

    return in_a_fork(changed)


def hunt(mutant: Mutant, runs_max: int) -> Result:
    """Look for a run that notices a mutant, first with the known seed. Else return the last result.

    The core must have been changed before, see :mod:`patching`.
    """
    make = partial(Case, mutant.scenario, mutant=mutant.name)
    if mutant.crash:
        known = [make(mutant.seed, parse_crash(mutant.crash))]
        others = [replace(c, mutant=mutant.name) for c in every_crash(mutant.scenario, mutant.seed)]
    else:
        known, others = [make(mutant.seed)], [make(seed) for seed in range(runs_max)]
    result = Result(case=known[0])
    for number, case in enumerate([*known, *others][:runs_max], start=1):
        result = run_case(case)
        result.runs = number
        if result.rule:
            break
    return result


def add_up(results: Iterable[dict[str, int]]) -> dict[str, int]:
    """Add counters."""
    total: dict[str, int] = {}
    for counts in results:
        for key, count in counts.items():
            total[key] = total.get(key, 0) + count
    return dict(sorted(total.items()))
