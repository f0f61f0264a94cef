"""The command line of the simulation. ``docs/simulation.md`` explains its output."""

import argparse
import sys
import time

from sim.kernel.cases import EVERY_RUN, parse_share
from sim.mutants.patching import install
from sim.mutants.table import MUTANTS


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m sim",
        description="Run the real core in a simulated cluster, deterministically from a seed.",
    )
    parser.add_argument("--scenario", default="chaos", help="a name from --list; with --seeds several, or all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", metavar="A..B", help="many seeds, both ends included")
    parser.add_argument("--crash-at", metavar="K:before|after|unknown", help="one fault, at effect K")
    parser.add_argument("--every-crash", action="store_true", help="every effect, three ways")
    parser.add_argument("--share", type=parse_share, default=EVERY_RUN, metavar="K/N", help="each N-th run, from K on")
    parser.add_argument("--mutant", help="change one line of the core first; a name from --list")
    parser.add_argument("--hunt", type=int, metavar="N", help="run a mutant up to N times")
    parser.add_argument("--only", metavar="PARTS", help="of the faults and requests, only these: f0,p2,m1 or none")
    parser.add_argument("--shrink", action="store_true", help="find the fewest faults and requests that still fail")
    parser.add_argument("--trace", action="store_true", help="print every event in few words")
    parser.add_argument("--raw", action="store_true", help="print every event with all its values")
    parser.add_argument("--width", type=int, default=240, help="columns of a line of --raw")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="name scenarios and mutants")
    return parser.parse_args()


def main() -> int:
    """Run as the arguments say. The exit status is 1 when a promise was broken."""
    arguments = _arguments()
    if arguments.mutant is not None:
        for patch in MUTANTS[arguments.mutant].patches:
            install(patch)
        arguments.processes = 1  # other processes would import the core as it is on disk
    # Only now: a mutant must be in place before the core is imported.
    from sim import running  # noqa: PLC0415
    from sim.kernel.faults import parse_crash  # noqa: PLC0415
    from sim.scenario_table import SCENARIOS  # noqa: PLC0415
    from sim.shrinking import parse_parts  # noqa: PLC0415
    from sim.transcript import transcribe  # noqa: PLC0415

    if arguments.list:
        print("scenarios:", ", ".join((*SCENARIOS, *running.SEARCHES)))
        for name, mutant in MUTANTS.items():
            print(f"mutant {name}: {mutant.rule}")
        return 0
    if arguments.hunt is not None:
        result = running.hunt(MUTANTS[arguments.mutant], arguments.hunt)
        print(f"{result}\n  after {result.runs} runs")
        return 1 if result.rule else 0
    if arguments.seeds or arguments.every_crash:
        return _many(arguments)
    crash = parse_crash(arguments.crash_at) if arguments.crash_at else None
    parts = parse_parts(arguments.only) if arguments.only else None
    case = running.Case(arguments.scenario, arguments.seed, crash, arguments.mutant, parts)
    if arguments.shrink:
        case = running.shrunk(running.run_case(case)).case
    describe = repr if arguments.raw else transcribe
    result = running.run_case(case, keep_trace=arguments.trace or arguments.raw, describe=describe)
    for line in result.lines or ():
        print(line[: arguments.width])
    print(result)
    print(
        f"  {result.events} events, {result.effects} effects, {result.virtual_s:.1f} virtual "
        f"seconds, trace {result.trace}, injected {result.injected}"
    )
    return 1 if result.rule else 0


def _many(arguments: argparse.Namespace) -> int:
    from sim import running  # noqa: PLC0415
    from sim.scenario_table import SCENARIOS  # noqa: PLC0415

    everything = arguments.scenario == "all"
    names = list(SCENARIOS) if everything else arguments.scenario.split(",")
    if arguments.every_crash:
        cases = [case for name in names for case in running.every_crash(name, arguments.seed)]
    else:
        first, _, last = arguments.seeds.partition("..")
        numbers = range(int(first), int(last) + 1)
        cases = [case for name in names for case in running.seeds(name, numbers)]
    started = time.monotonic()
    results = []
    for result in running.run_all(cases[arguments.share], arguments.processes):
        results.append(result)
        if result.rule:
            print(result, flush=True)
    bad = sum(1 for r in results if r.rule)
    hours = sum(r.virtual_s for r in results) / 3600
    print(
        f"{len(results)} runs of {len(names)} scenarios, {bad} violations, "
        f"{hours:.2f} virtual hours, {time.monotonic() - started:.0f} s"
    )
    print("injected:", running.add_up(r.injected for r in results))
    print("sometimes:", running.add_up(r.sometimes for r in results))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
