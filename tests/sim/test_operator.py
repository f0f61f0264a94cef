"""The operator's decisions after stale reads, with two operators, users, faults and crashes."""

import importlib.util
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sim.mutants.patching import patched_source
from sim.operator_world.__main__ import run_seeds
from sim.operator_world.operator_mutants import MUTANTS
from tests.support.long_tests import count

ROOT = Path(__file__).parents[2]
SEEDS = count(240, 20_000)
PROCESSES = 2
# What must happen in a run of this size: what never happens is not tested.
MET = (
    "Archive",
    "Delete",
    "Scale",
    "SetFinalizer",
    "WriteSnapshotStatus",
    "autoscaled down",
    "autoscaled up",
    "latest taken",
    "stranger",
    "user delete",
    "user restore",
    "user suspend",
)


# Runs that have found errors in the past: seeds, steps, habits of the users.
FOUND: tuple[tuple[range, int, tuple[str, ...]], ...] = (
    (range(111, 112), 200, ()),
    (range(130, 131), 200, ("replicas",)),
    (range(154, 155), 200, ()),
    (range(255, 256), 200, ()),
    (range(676, 677), 120, ()),
    (range(844, 845), 200, ("replicas",)),
)


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return python("-m", "sim.operator_world", *arguments)


def python(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "worker:operator"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_short_runs_end_where_the_user_wants() -> None:
    share = SEEDS // PROCESSES
    parts = [f"{n * share}..{(n + 1) * share}" for n in range(PROCESSES)]
    with ThreadPoolExecutor(PROCESSES) as pool:
        done = list(pool.map(lambda part: run("--seeds", part, "--steps", "30"), parts))
    assert [d.returncode for d in done] == [0] * PROCESSES, "".join(d.stdout + d.stderr for d in done)


def test_longer_runs_meet_everything() -> None:
    # Few users have an autoscaler, so runs whose users do little else are among them.
    runs = (run("--seeds", "0..85", "--steps", "200"), run("--seeds", "0..20", "--steps", "200", "--habits", "load"))
    told = "".join(done.stdout + done.stderr for done in runs)
    assert [done.returncode for done in runs] == [0, 0], told
    missing = [name for name in MET if f"'{name}'" not in told]
    assert not missing, told


def test_seeds_that_have_found_something_find_nothing_now() -> None:
    bad = [text for what in FOUND for text in run_seeds(*what)[1]]
    assert not bad


def test_worlds_of_one_process_know_nothing_of_each_other() -> None:
    """Two runs of one seed have objects of the same uids and versions."""
    one, two = ("replicas", "suspend"), ("restartNonce", "image")
    code = f"from sim.operator_world.__main__ import run_seeds as r; print(*r(range(1, 2), 60, {two}))"
    before = f"from sim.operator_world.__main__ import run_seeds as s; s(range(1, 2), 60, {one}); "
    alone, behind = python("-c", code), python("-c", before + code)
    assert alone.returncode == 0, alone.stderr
    assert alone.stdout == behind.stdout


def test_each_mutant_changes_exactly_one_line_that_is_there() -> None:
    for mutant in MUTANTS.values():
        spec = importlib.util.find_spec(mutant.patch.module)
        assert spec is not None
        assert spec.origin is not None
        source = Path(spec.origin).read_text(encoding="utf-8")
        compile(patched_source(source, mutant.patch), mutant.patch.module, "exec")


def test_every_rule_is_noticed_when_it_is_gone() -> None:
    done = run("--mutants")
    assert done.returncode == 0, done.stdout + done.stderr
