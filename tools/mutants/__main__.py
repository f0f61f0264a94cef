"""``make mutants``: puts one fault at a time into the code that ships, and runs the tests that should notice.

    python -m tools.mutants                                          all faults of the table
    python -m tools.mutants --only ID ID                             some of them
    python -m tools.mutants --file worker/penstock/engine/router.py  what the operators make of one file
    python -m tools.mutants --check                                  does every entry fit today's source?
    python -m tools.mutants --follow                                 write the new file of texts that have moved

Verdicts are kept in ``build/mutants``, so a run that was ended goes on where it was. Exits with 1 when
a fault survives that the table does not call equivalent, or when more than 5 % survive in all.
"""

import argparse
import sys
from collections.abc import Sequence

from tools.mutants.operators import faults_of
from tools.mutants.running import FOLDER, CannotRunError, Results, Verdict, run
from tools.mutants.table import REPOSITORY, Fault, follow, read_faults, stale

SURVIVORS_SHARE_MAX = 0.05


def main(arguments: Sequence[str]) -> int:
    """Run, print a line for each fault and the survivors at the end; return the exit status."""
    options = _options(arguments)
    if options.follow:
        print("\n".join(follow()) or "mutants: no text has moved")
    table = read_faults()
    problems = stale(table)
    if problems or options.check or options.follow:
        print("\n".join(problems) or f"mutants: {len(table)} faults fit today's source")
        return 1 if problems else 0
    faults = _chosen(options, table)
    results = FOLDER / ("operators.json" if options.file else "results.json")
    if options.fresh:
        results.unlink(missing_ok=True)
    try:
        verdicts = run(faults, Results(results), options.jobs, _say)
    except CannotRunError as error:
        print(error)
        return 2
    return _sum_up(faults, verdicts)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", nargs="+", metavar="ID", help="faults of the table")
    parser.add_argument("--file", help="a source file, for the faults of the operators")
    parser.add_argument("--tests", nargs="+", help="with --file: the tests, otherwise those of the table")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--fresh", action="store_true", help="forget earlier verdicts")
    parser.add_argument("--check", action="store_true", help="only look whether every entry fits")
    parser.add_argument("--follow", action="store_true", help="mend entries whose text is in another file now")
    return parser.parse_args(arguments)


def _chosen(options: argparse.Namespace, table: dict[str, Fault]) -> list[Fault]:
    if options.file:
        known = (test for fault in table.values() if fault.file == options.file for test in fault.tests)
        tests = options.tests or list(dict.fromkeys(known))
        if not tests:
            raise SystemExit(f"the table has no fault in {options.file}: name tests with --tests")
        return faults_of(options.file, (REPOSITORY / options.file).read_text(encoding="utf-8"), tests)
    unknown = [name for name in options.only or () if name not in table]
    if unknown:
        raise SystemExit(f"no such fault: {', '.join(unknown)}")
    return [table[name] for name in options.only or table]


def _say(verdict: Verdict, was_known: bool) -> None:
    how = "known" if was_known else f"{verdict.seconds:.0f} s"
    print(f"{'noticed ' if verdict.noticed else 'SURVIVED'} {verdict.id} ({how}) {verdict.by}", flush=True)


def _sum_up(faults: Sequence[Fault], verdicts: Sequence[Verdict]) -> int:
    by_id = {fault.id: fault for fault in faults}
    alive = [by_id[verdict.id] for verdict in verdicts if not verdict.noticed]
    wrong = [by_id[v.id] for v in verdicts if v.noticed and by_id[v.id].equivalent]
    print(f"mutants: {len(verdicts)} faults, {len(alive)} survive ({len(alive) / max(len(verdicts), 1):.1%})")
    for fault in alive:
        why = f"equivalent: {fault.equivalent}" if fault.equivalent else f"NOT NOTICED: {fault.harm}"
        print(f"  {fault.id} ({fault.file}): {why}")
    for fault in wrong:
        print(f"  {fault.id} ({fault.file}): a test notices it, so it is not equivalent")
    unexplained = [fault for fault in alive if not fault.equivalent]
    too_many = len(alive) > SURVIVORS_SHARE_MAX * len(verdicts)
    return 1 if unexplained or wrong or too_many else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
