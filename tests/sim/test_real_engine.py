"""The engine that ships, under the simulated control plane, the simulated threads and the virtual disk."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim.kernel.faults import Verdict
from sim.real_engine.engine_mutant import EngineMutant
from sim.real_engine.engine_runs import EngineCase, every_crash, run_all
from sim.real_engine.mutants import MUTANTS
from sim.running import add_up
from tests.support.long_tests import count, long_only

REPOSITORY = Path(__file__).resolve().parents[2]
NOTICED_WITHIN = 40  # seeds
SEEDS = tuple(range(first, first + 20) for first in range(0, count(60, 300), 20))
LONG_SEEDS = range(count(0, 30))  # of each other scenario, on top of the seeds below
CRASH_SHARES = 2  # tests that share the crashes of a scenario, so that two processes can run them
# Seeds whose runs meet the states that their test requires. Every other scenario has seed 0.
SEEDS_THAT_MEET: dict[str, tuple[int, ...]] = {
    "chaos-timers": (3,),
    "chaos-joined": (3,),
    "chaos-windowed": (8,),
    "chaos-pushed": (3,),
    "chaos-paned": (5,),
    "chaos-clocked": (3,),
    "chaos-asked": (18,),
    "chaos-migrated": (8,),
    "chaos-forgetful": (21,),
    "chaos-priced": (8,),
    "chaos-connected": (1,),
    "chaos-sided": (1,),
    "chaos-tabled": (1,),
    "stalled-topic": (2,),
}
BROKEN_ONCE = (
    ("chaos", 126),  # two workers made the output folder at once: one took it for a file
    ("chaos", 193),
    ("chaos-pushed", 9),  # a worker could not announce that it gave a partition up, and its task's thread died
    ("chaos-pushed", 1059),  # a partition that could not be announced stayed open, and its sender stayed there
    ("chaos-pushed-on-disk", 1048),  # the note of an earlier job could not be removed: the job failed
    ("chaos-table", 1053),  # workers that had left had forgotten none of their staged files
    ("chaos-asked", 15),  # answers to restored rows and to new ones came at once: their batches differed in nullability
)

# States that every twenty seeds must have met.
SOMETIMES = (
    "committed a checkpoint",
    "committed a final",
    "committed a rescale",
    "power failed",
    "rescale settled",
    "rollback to a checkpoint",
)

OTHER_JOBS = ("timers", "joined", "windowed", "pushed", "paned", "clocked", "asked", "migrated", "priced", "forgetful")

ALSO_ON_DISK = ("asked", "clocked", "connected", "paned", "pushed", "sided", "tabled")

pytestmark = pytest.mark.timeout(1200)  # a busy machine takes its time


def other_cases(scenario: str) -> list[EngineCase]:
    seeds = dict.fromkeys((*SEEDS_THAT_MEET.get(scenario, (0,)), *LONG_SEEDS))
    return [EngineCase(scenario, seed) for seed in seeds]


@pytest.mark.parametrize("seeds", SEEDS, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_no_seed_breaks_a_promise(seeds: range) -> None:
    results = list(run_all([EngineCase("chaos", seed) for seed in seeds], processes=1))
    assert [str(result) for result in results if result.rule or result.stuck] == []
    met = add_up(result.sometimes for result in results)
    assert [state for state in SOMETIMES if not met.get(state)] == []
    assert len({result.trace for result in results}) == len(seeds)


@pytest.mark.parametrize("job", OTHER_JOBS)
def test_no_seed_of_another_job_breaks_a_promise(job: str) -> None:
    results = list(run_all(other_cases(f"chaos-{job}"), processes=1))
    assert [str(result) for result in results if result.rule or result.stuck] == []
    met = add_up(result.sometimes for result in results)
    assert [state for state in SOMETIMES if not met.get(state)] == []


@pytest.mark.parametrize(
    ("scenario", "met"),
    [
        ("lone-calls", "call failed alone"),
        ("chaos-endless", "savepoint complete"),
        ("moved", "another job begins from a savepoint"),
        ("chaos-timers-on-disk", "committed a final"),
        ("chaos-joined-on-disk", "committed a final"),
        ("chaos-priced-on-disk", "committed a final"),
        ("chaos-forgetful-on-disk", "committed a final"),
        *(pytest.param(f"chaos-{job}-on-disk", "committed a final", marks=long_only) for job in ALSO_ON_DISK),
        ("chaos-windowed-on-disk", "committed a final"),
        ("chaos-connected", "committed a rescale"),
        ("chaos-tabled", "committed a rescale"),
        ("chaos-sided", "committed a rescale"),
        pytest.param("chaos-bucket", "committed a final", marks=long_only),
        ("chaos-table", "committed a final"),
        ("chaos-topic", "committed a final"),
        ("chaos-looked-up", "query of a lookup refused"),
        ("stalled-topic", "fence of a producer that is stopped"),
    ],
)
def test_no_seed_of_another_scenario_breaks_a_promise(scenario: str, met: str) -> None:
    results = list(run_all(other_cases(scenario), processes=1))
    assert [str(result) for result in results if result.rule or result.stuck] == []
    assert add_up(result.sometimes for result in results)[met] > 0


@pytest.mark.parametrize(("scenario", "seed"), BROKEN_ONCE)
def test_a_seed_that_once_broke_a_promise_keeps_it(scenario: str, seed: int) -> None:
    (result,) = run_all([EngineCase(scenario, seed)], processes=1)
    assert not result.rule, result
    assert not result.stuck, result


@pytest.mark.parametrize("scenario", ["quiet", "around"])
def test_a_directed_scenario_ends(scenario: str) -> None:
    results = list(run_all([EngineCase(scenario, seed) for seed in range(3)], processes=1))
    assert [str(result) for result in results if result.rule or result.stuck] == []


@pytest.mark.parametrize("share", range(CRASH_SHARES))
@pytest.mark.parametrize(("scenario", "kind"), [("tally", "checkpoint"), ("tally-up", "rescale")])
def test_a_process_may_die_before_any_effect(scenario: str, kind: str, share: int) -> None:
    """``make night`` has the other two ways of an effect to fail, too."""
    cases = every_crash(scenario, seed=0)
    cases = [case for case in cases if case.crash and case.crash.verdict is Verdict.CRASH_BEFORE][share::CRASH_SHARES]
    results = list(run_all(cases, processes=1))
    assert [str(result) for result in results if result.rule or result.stuck] == []
    assert {tuple(result.injected.values()) for result in results} == {(1,)}
    assert add_up(result.sometimes for result in results)[f"committed a {kind}"] > len(cases) // 2


@pytest.mark.parametrize(
    ("scenario", "stride"),
    [
        pytest.param("checkpoint", 193, marks=long_only),
        pytest.param("rescale-up", 227, marks=long_only),
        ("pushed", 289),
    ],
)
def test_a_fault_at_an_effect_breaks_no_promise(scenario: str, stride: int) -> None:
    """One run each at every so many of (effect, way to fail): ``make night`` has all of them.

    No stride is a multiple of 3, the number of ways to fail. So each is met.
    """
    cases = every_crash(scenario, seed=0)[:: count(stride, 7)]
    assert len(cases) > 7
    results = list(run_all(cases, processes=1))
    assert [str(result) for result in results if result.rule or result.stuck] == []
    ways = {kind.partition(":")[2] for result in results for kind in result.injected}
    assert ways == {"before", "after", "unknown"}


def test_a_seed_gives_the_same_trace_in_every_process() -> None:
    found = traces("0", "3..5")
    assert traces("99", "3..5") == found
    assert traces("1", "5..5") == found[2:]


def traces(hash_seed: str, seeds: str) -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-m", "sim.real_engine", "--seeds", seeds],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.partition("trace=")[2].split()[0] for line in ran.stdout.splitlines() if "trace=" in line]


@pytest.mark.parametrize("mutant", list(MUTANTS.values())[:: count(34, 1)], ids=lambda mutant: mutant.name)
def test_a_seed_notices_the_fault(mutant: EngineMutant) -> None:
    seeds = dict.fromkeys((mutant.seed, *range(NOTICED_WITHIN)))
    cases = [EngineCase(mutant.scenario, seed, mutant=mutant.name) for seed in seeds]
    results = run_all(cases, processes=1, mutant=mutant.name)
    try:
        assert any(result.rule for result in results), mutant.fault
    finally:
        results.close()
