"""The command line of the simulation of real engines. ``docs/simulation.md`` explains its output."""

import argparse
import sys
import time

from sim.kernel.cases import EVERY_RUN, parse_share
from sim.kernel.faults import parse_crash
from sim.real_engine import engine_runs
from sim.real_engine.mutants import MUTANTS
from sim.real_engine.scenarios import SCENARIOS


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m sim.real_engine",
        description="Run the engine that ships in a simulated cluster, deterministically from a seed.",
    )
    parser.add_argument("--scenario", default="chaos", choices=SCENARIOS)
    parser.add_argument("--seeds", default="0..19", metavar="A..B", help="both ends included")
    parser.add_argument("--crash-at", metavar="K:before|after|unknown", help="one fault, at effect K")
    parser.add_argument("--every-crash", action="store_true", help="every effect of the first seed, three ways")
    parser.add_argument("--share", type=parse_share, default=EVERY_RUN, metavar="K/N", help="each N-th run, from K on")
    parser.add_argument("--mutant", choices=MUTANTS, help="change one line of the engine first")
    parser.add_argument("--until-wrong", action="store_true", help="end at the first violation")
    parser.add_argument("--trace", action="store_true", help="print every event")
    parser.add_argument("--width", type=int, default=240, help="columns of a trace line")
    parser.add_argument("--processes", type=int, default=1)
    return parser.parse_args()


def _cases(arguments: argparse.Namespace) -> list[engine_runs.EngineCase]:
    first, _, last = arguments.seeds.partition("..")
    crash = parse_crash(arguments.crash_at) if arguments.crash_at else None
    share: slice = arguments.share
    if arguments.every_crash:
        return engine_runs.every_crash(arguments.scenario, int(first))[share]
    seeds = range(int(first), int(last or first) + 1)[share]
    return [engine_runs.EngineCase(arguments.scenario, seed, crash, arguments.mutant) for seed in seeds]


def main() -> int:
    """Run as the arguments say. The exit status is 1 when a promise was broken."""
    arguments = _arguments()
    began, bad, count = time.monotonic(), 0, 0
    results = engine_runs.run_all(
        _cases(arguments), processes=arguments.processes, mutant=arguments.mutant, keep_trace=arguments.trace
    )
    for result in results:
        count += 1
        bad += bool(result.rule or result.stuck)
        for line in result.lines or ():
            print(line[: arguments.width])
        print(result, flush=True)
        if result.rule and arguments.until_wrong:
            break
    print(f"{count} runs, {bad} violations, {time.monotonic() - began:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
