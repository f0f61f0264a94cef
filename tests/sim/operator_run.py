"""``python -m tests.sim.operator_run --seeds 0..2000``: the operator's simulation, many seeds.

``--mutant NAME`` runs it without one of its rules. Exit status 1: a violation, with its seed.
"""

import argparse
import sys
from collections import Counter

from penstock.testing.patching import install
from tests.sim.operator_rules import MUTANTS, STEPS


def main(arguments: list[str]) -> int:
    """Run the seeds; prints violations and what was met. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0..2000")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--mutant", choices=sorted(MUTANTS))
    found = parser.parse_args(arguments)
    if found.mutant:
        install(MUTANTS[found.mutant].patch)
    first, _, last = found.seeds.partition("..")
    met, bad = run_seeds(range(int(first), int(last)), found.steps, stop=bool(found.mutant))
    for text in bad:
        sys.stdout.write(f"{text}\n")
    sys.stdout.write(f"met: {dict(sorted(met.items()))}\n")
    return 1 if bad else 0


def run_seeds(seeds: range, steps: int, *, stop: bool = False) -> tuple[Counter[str], list[str]]:
    """Run; returns what was met how often, and the violations. ``stop``: at the first."""
    # Imported late: a mutant changes a module before it is imported for the first time.
    from tests.sim.operator_judge import ViolationError
    from tests.sim.operator_world import World

    met: Counter[str] = Counter()
    bad: list[str] = []
    for seed in seeds:
        world = World(seed)
        try:
            world.run(steps)
        except ViolationError as error:
            bad.append(str(error))
            if stop:
                break
        met.update(world.seen)
    return met, bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
