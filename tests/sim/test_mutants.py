"""The tester is tested: the core without one of its rules must be caught."""

import importlib.util
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from penstock.testing.faults import parse_crash
from penstock.testing.mutant_table import CANARY, MUTANTS, RULES, Mutant
from penstock.testing.patching import patched_source
from penstock.testing.running import Case, run_all

WORKER = Path(__file__).parents[2] / "worker"


def survives(mutant: Mutant) -> str:
    """Return an empty text when the mutant is caught, else what its runs said.

    A change of the core may move the seed that catches it, so others are tried as well.
    """
    command = [sys.executable, "-m", "penstock.testing", "--mutant", mutant.name]
    run = subprocess.run(
        [*command, "--hunt", "150"],
        env={**os.environ, "PYTHONPATH": str(WORKER)},
        capture_output=True,
        text=True,
        check=False,
    )
    caught = run.returncode == 1 and "repeat:" in run.stdout
    return "" if caught else f"{mutant.name}: {run.stdout}{run.stderr}"


def test_every_rule_has_a_mutant() -> None:
    assert set(RULES) == {m.rule for m in MUTANTS.values()}


def test_every_mutant_changes_exactly_one_line_that_is_there() -> None:
    for patch in [patch for mutant in MUTANTS.values() for patch in mutant.patches]:
        spec = importlib.util.find_spec(patch.module)
        assert spec is not None
        assert spec.origin is not None
        source = Path(spec.origin).read_text(encoding="utf-8")
        changed = patched_source(source, patch)
        compile(changed, patch.module, "exec")
        assert (
            sum(a != b for a, b in zip(source.splitlines(), changed.splitlines(), strict=True)) == 1
        )


def test_the_canary_is_caught() -> None:
    assert not survives(MUTANTS[CANARY])


def test_every_mutant_is_caught() -> None:
    with ThreadPoolExecutor(2) as pool:
        alive = [said for said in pool.map(survives, MUTANTS.values()) if said]
    assert not alive, "\n".join(alive)


def test_the_core_as_it_is_passes_where_its_mutants_are_caught() -> None:
    places = sorted({(m.scenario, m.seed, m.crash) for m in MUTANTS.values()})
    cases = [Case(s, n, parse_crash(crash) if crash else None) for s, n, crash in places]
    bad = [str(r) for r in run_all(cases) if r.rule]
    assert not bad, "\n".join(bad)
