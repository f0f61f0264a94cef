"""``make mutants``: puts one fault at a time into the code that ships, and runs the tests that should notice.

    python -m tools.mutants                                          all faults whose source or tests have changed
    python -m tools.mutants --new                                    all without a verdict, as they are in the table
    python -m tools.mutants --only ID ID                             some of them
    python -m tools.mutants --about tests/unit/transport             those whose tests are there
    python -m tools.mutants --file worker/penstock/engine/router.py  what the operators make of one file
    python -m tools.mutants --report                                 run nothing: what became of each fault
    python -m tools.mutants --check                                  does every entry fit today's source?
    python -m tools.mutants --follow                                 write the new file of texts that have moved

Verdicts are kept in ``tools/mutants/verdicts.csv``, so a run goes on where the one before ended; commit them.
Exits with 1 when a fault survives that the table does not call equivalent, or when more than 5 % survive.
"""

import argparse
import sys
from collections.abc import Sequence

from tools.mutants.ledger import VERDICTS, Ledger, Outcome, report
from tools.mutants.operators import faults_of
from tools.mutants.running import FOLDER, TEST_TIMEOUT_S, CannotRunError, run
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
    ledger = Ledger(FOLDER / "operators.csv" if options.file else VERDICTS)
    left = [] if options.report else _left(options, faults, ledger)
    try:
        _run(left, ledger, options)
    except CannotRunError as error:
        print(error)
        return 2
    print("\n".join(report(faults, ledger)))
    return _status(faults, ledger)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", nargs="+", metavar="ID", help="faults of the table")
    parser.add_argument("--about", metavar="FOLDER", help="faults whose first test is there")
    parser.add_argument("--file", help="a source file, for the faults of the operators")
    parser.add_argument("--tests", nargs="+", help="with --file: the tests, otherwise those of the table")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=int, default=TEST_TIMEOUT_S, metavar="SECONDS", help="of one test")
    parser.add_argument("--new", action="store_true", help="only faults without a verdict")
    parser.add_argument("--fresh", action="store_true", help="run again what has not changed")
    parser.add_argument("--report", action="store_true", help="only say what became of each fault")
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
    chosen = [table[name] for name in options.only or table]
    return [fault for fault in chosen if fault.tests[0].startswith(options.about or "")]


def _left(options: argparse.Namespace, faults: Sequence[Fault], ledger: Ledger) -> list[Fault]:
    if options.fresh:
        return list(faults)
    verdict_of = ledger.of if options.new else ledger.known
    return [fault for fault in faults if verdict_of(fault) is None]


def _run(faults: Sequence[Fault], ledger: Ledger, options: argparse.Namespace) -> None:
    for verdict in run(faults, options.jobs, options.limit) if faults else ():
        ledger.add(verdict)
        print(f"{verdict.outcome.value:8} {verdict.id} ({verdict.seconds} s) {verdict.by}", flush=True)


def _status(faults: Sequence[Fault], ledger: Ledger) -> int:
    ran = [(fault, verdict) for fault in faults if (verdict := ledger.of(fault)) is not None]
    alive = [fault for fault, verdict in ran if verdict.outcome is Outcome.SURVIVED]
    wrong = [fault for fault, verdict in ran if verdict.outcome is not Outcome.SURVIVED and fault.equivalent]
    unexplained = [fault for fault in alive if not fault.equivalent]
    return 1 if unexplained or wrong or len(alive) > SURVIVORS_SHARE_MAX * len(ran) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
