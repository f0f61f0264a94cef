"""The tester is tested: the core without one of its rules must be caught."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim.kernel.faults import parse_crash
from sim.mutants.patching import patched_source
from sim.mutants.table import CANARY, MUTANTS, RULES
from sim.running import Case, hunt_all, run_all
from tools.mutants.table import read_faults

pytestmark = pytest.mark.timeout(1200)  # a busy machine takes its time

ROOT = Path(__file__).parents[2]
SOURCES = os.pathsep.join((str(ROOT), str(ROOT / "worker")))
SHARES = 4  # tests that share the mutants
RUNS_MAX = 150  # a change of the core may move the seed that catches a mutant: others are tried


def test_every_rule_has_a_mutant_here_or_a_fault_of_the_parts_that_are_not_simulated() -> None:
    simulated = {mutant.rule for mutant in MUTANTS.values()}
    others = {fault.rule for fault in read_faults().values() if fault.rule}
    assert set(RULES) == simulated | others
    assert not simulated & others


def test_every_mutant_changes_exactly_one_line_that_is_there() -> None:
    for patch in [patch for mutant in MUTANTS.values() for patch in mutant.patches]:
        spec = importlib.util.find_spec(patch.module)
        assert spec is not None
        assert spec.origin is not None
        source = Path(spec.origin).read_text(encoding="utf-8")
        changed = patched_source(source, patch)
        compile(changed, patch.module, "exec")
        assert sum(a != b for a, b in zip(source.splitlines(), changed.splitlines(), strict=True)) == 1


def test_the_canary_is_caught_by_the_command_that_repeats_it() -> None:
    command = [sys.executable, "-m", "sim", "--mutant", CANARY, "--hunt", "1"]
    run = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": SOURCES},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1, run.stdout + run.stderr
    assert "repeat:" in run.stdout


@pytest.mark.parametrize("share", range(SHARES))
def test_every_mutant_is_caught(share: int) -> None:
    mutants = list(MUTANTS.values())[share::SHARES]
    alive = [str(result) for result in hunt_all(mutants, RUNS_MAX) if not result.rule]
    assert not alive, "\n".join(alive)


def test_the_core_as_it_is_passes_where_its_mutants_are_caught() -> None:
    places = sorted({(m.scenario, m.seed, m.crash) for m in MUTANTS.values()})
    cases = [Case(s, n, parse_crash(crash) if crash else None) for s, n, crash in places]
    bad = [str(r) for r in run_all(cases) if r.rule]
    assert not bad, "\n".join(bad)
