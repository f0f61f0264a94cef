"""``python -m sim.operator_world --seeds 0..2000`` runs the operator's simulation.

``--steps 200 --habits replicas,waver`` makes longer runs whose users do little else.
``--mutants`` runs each mutant, ``--mutant NAME`` one of them. Each runs in a fork of this process,
which has imported all modules that no mutant changes. The seeds of the mutants also run without a
mutant. Exit status 1: a violation, with its seed, or a mutant that was not detected.
"""

import argparse
import gc
import importlib
import os
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial

from sim.mutants.patching import install
from sim.operator_world.operator_mutants import MUTANTS, STEPS, Mutant

HUNTED = 60  # seeds from the mutant's own seed on: other changes may move the one that detects it
NOTICED = 10
WORLDS_KEPT = 50
UNCHANGED = (
    "penstock.contract.worker_rules",
    "penstock.contract.streamjob_status",
    "penstock_operator.api.views",
    "penstock_operator.resources.permissions",
    "penstock_operator.resources.jobs",
    "penstock_operator.resources.coordination",
    "penstock_operator.resources.spark_application",
    "penstock_operator.resources.workload",
    "sim.operator_world.operator_invariants",
)


def main(arguments: list[str]) -> int:
    """Run the seeds, and print violations and counts. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0..2000")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--habits", default="", help="of the users; default: chosen by the seed")
    parser.add_argument("--mutant", choices=sorted(MUTANTS))
    parser.add_argument("--mutants", action="store_true")
    found = parser.parse_args(arguments)
    if found.mutants or found.mutant:
        return run_mutants([found.mutant] if found.mutant else list(MUTANTS))
    first, _, last = found.seeds.partition("..")
    habits = tuple(filter(None, found.habits.split(",")))
    met, bad = run_seeds(range(int(first), int(last)), found.steps, habits)
    for text in bad:
        sys.stdout.write(f"{text}\n")
    sys.stdout.write(f"met: {dict(sorted(met.items()))}\n")
    return 1 if bad else 0


def run_mutants(names: list[str]) -> int:
    """Run the mutants, and print what detected each. Returns 1 if one was not detected."""
    for module in UNCHANGED:
        importlib.import_module(module)
    wrong = 0
    for name in names:
        sys.stdout.write(f"{name}: ")
        sys.stdout.flush()
        if _in_fork(partial(_hunt, MUTANTS[name])) != NOTICED:
            sys.stdout.write("not detected\n")
            wrong += 1
    sys.stdout.write("without a mutant: ")
    sys.stdout.flush()
    # A fork each: worlds of one seed with other habits share uids, and so entries in caches.
    if sum(_in_fork(partial(_as_it_is, MUTANTS[name])) for name in names):
        wrong += 1
    else:
        sys.stdout.write("no violation\n")
    return 1 if wrong else 0


def _in_fork(run: Callable[[], int]) -> int:
    """Run a function in a child process. Returns its exit status, 1 if it raises."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = run()
            sys.stdout.flush()
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(ended)


def _hunt(mutant: Mutant) -> int:
    install(mutant.patch)
    seeds = range(mutant.seed, mutant.seed + HUNTED)
    _, bad = run_seeds(seeds, mutant.steps, mutant.habits, stop=True)
    sys.stdout.write("".join(f"{text}\n" for text in bad))
    return NOTICED if bad else 0


def _as_it_is(mutant: Mutant) -> int:
    _, bad = run_seeds(range(mutant.seed, mutant.seed + 1), mutant.steps, mutant.habits)
    sys.stdout.write("".join(f"{text}\n" for text in bad))
    return 1 if bad else 0


def run_seeds(
    seeds: range, steps: int, habits: tuple[str, ...] = (), *, stop: bool = False
) -> tuple[Counter[str], list[str]]:
    """Run the seeds. Returns counts of what happened, and violations. ``stop``: at the first."""
    # Imported late: a mutant changes a module before it is imported for the first time.
    from sim.operator_world.operator_invariants import ViolationError  # noqa: PLC0415
    from sim.operator_world.world import World  # noqa: PLC0415

    met: Counter[str] = Counter()
    bad: list[str] = []
    gc.disable()  # a world is a reference cycle: many are collected at once
    for seed in seeds:
        if seed % WORLDS_KEPT == 0:
            gc.collect()
        world = World(seed, habits)
        try:
            world.run(steps)
        except ViolationError as error:
            bad.append(str(error))
            if stop:
                break
        met.update(world.seen)
    gc.enable()
    return met, bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
