"""``python -m sim.publishers --scenario lost-topic --seeds 0..99 [--mutant NAME]``; without options: all."""

import argparse
import sys
from collections import Counter

from sim.publishers.publisher_mutants import MUTANTS
from sim.publishers.publisher_runs import PublisherCase, run_all
from sim.publishers.publisher_scenarios import SCENARIOS


def main() -> int:
    """Run, and print what breaks a promise."""
    parser = argparse.ArgumentParser(prog="python -m sim.publishers", description=__doc__)
    parser.add_argument("--scenario", default="all", help=", ".join(SCENARIOS))
    parser.add_argument("--seeds", default="0..99")
    parser.add_argument("--mutant", choices=MUTANTS)
    given = parser.parse_args()
    first, _, last = given.seeds.partition("..")
    names = SCENARIOS if given.scenario == "all" else given.scenario.split(",")
    cases = [PublisherCase(n, seed, mutant=given.mutant) for n in names for seed in range(int(first), int(last) + 1)]
    results = run_all(cases, given.mutant)
    for result in results:
        if result.rule:
            print(result)
    happened = sum((result.happened for result in results), Counter[str]())
    print(f"{len(results)} runs, {sum(bool(r.rule) for r in results)} violations; sometimes: {dict(happened)}")
    return int(any(result.rule for result in results))


if __name__ == "__main__":
    sys.exit(main())
