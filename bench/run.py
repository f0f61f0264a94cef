"""``make bench``: run scenarios, check every count, print a table, keep JSON and plots.

    python -m bench.run [SCENARIO ...] [--quick] [--part K/N] [--set NAME=VALUE ...] [--out FOLDER]

Without names it runs the scenarios whose name begins with a digit. The exit code is 0 if every run was
exact. A missed target is shown but does not fail the command, because it depends on the machine.
"""

import argparse
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

from bench import (
    bare,
    limits,
    link,
    machine,
    oracle,
    processes,
    records,
    results,
    runner,
    table,
    texts,
)
from bench.draw import pictures
from bench.endings import end_with_children
from bench.records import Record
from bench.scenario import Scenario, load, names, part
from bench.variants import compare, judge, show_verdicts
from penstock.base.values import replace


def main(arguments: list[str] | None = None) -> int:
    """Run the scenarios named on the command line, or the headline ones."""
    options = _parser().parse_args(arguments)
    end_with_children()
    made_on = machine.describe()
    print(f"== {made_on['cpu']}, {made_on['cores']} cores, revision {made_on['revision']}")
    changes = {k: tomllib.loads(f"x = {v}")["x"] for k, v in (s.split("=", 1) for s in options.set)}
    exact = True
    for name in options.scenario or [n for n in names() if n[0].isdigit()]:
        scenario = replace(load(name), **changes)
        if options.quick:
            scenario = scenario.shorter()
        exact &= measure(scenario, made_on, options)
    return 0 if exact else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.run")
    parser.add_argument("scenario", nargs="*", help=f"of {', '.join(names())}")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="change a field of the scenario, like payload=256",
    )
    parser.add_argument("--part", default="1/1", metavar="K/N", help="of many runs, the K-th N-th")
    parser.add_argument("--quick", action="store_true", help="a tenth of the time")
    parser.add_argument("--out", type=Path, default=records.OUT, help="folder of the results")
    return parser


def measure(scenario: Scenario, made_on: Record, options: argparse.Namespace) -> bool:
    """Make all runs of a scenario, store and show them. Returns true if all were exact."""
    print(f"\n== {scenario.name}: {scenario.title}", flush=True)
    runs = part(list(scenario.runs()), options.part)
    for one in runs:
        _prepare(one)
    kept = [one_run(one, first=i == 0) for i, one in enumerate(runs)]
    stem, record = records.of_scenario(
        scenario.name, scenario.title, "bench.run", made_on, kept, targets=_targets(scenario)
    )
    if scenario.variants:
        record["verdicts"] = compare(kept, scenario.variants)
        if scenario.judged:
            record["verdicts"] += judge(kept, scenario.variants, scenario.judged)
        show_verdicts(record["verdicts"])
    path = records.write(stem, record, options.out)
    drawn = pictures.draw(record, options.out / stem)
    print(f"   kept in {path}; drawn: {', '.join(p.name for p in drawn) or 'nothing'}")
    return all(run["exact"] for run in kept)


def _targets(scenario: Scenario) -> list[dict[str, str]]:
    """Return the bounds of all runs, and those of single variants."""
    of_all = [{"name": t.name, "bound": str(t)} for t in scenario.targets]
    of_variants = [
        {"name": t.name, "bound": str(t), "variant": v["name"]} for v in scenario.variants for t in v.get("targets", ())
    ]
    return of_all + of_variants


def _prepare(scenario: Scenario) -> None:
    """Check that all runs have what they need, before the first one begins."""
    link.command(scenario.link, [])
    if scenario.text:
        texts.prepare(scenario)


def one_run(scenario: Scenario, *, first: bool = True, source: Path = runner.ROOT) -> Record:
    """Run once, check and show the result. Returns the data that the record keeps."""
    if not first:
        print(f"\n-- {scenario.name}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    limit = [bare.measure(scenario)] if bare.applies(scenario) else []
    others = processes.Others()
    samples = runner.run(scenario, folder, source)
    # Above about 0.1 the figures do not describe the engine alone.
    others_share = others.share()
    wrong = oracle.differences(oracle.expected(scenario), samples.output)
    if samples.exit_code:
        wrong.insert(0, f"penstock run ended with {samples.exit_code}: see {folder}/run.log")
    found = results.figures(scenario, samples)
    found["generator_rows_per_s"] = round(limits.generator_rows_per_s(scenario), 1)
    found["others_share"] = others_share
    if limit:
        found |= bare.best([*limit, bare.measure(scenario)])
    table.show(found, scenario.targets, wrong)
    if not wrong:
        shutil.rmtree(folder)
    return records.run_record(scenario, samples, found, wrong)


if __name__ == "__main__":
    sys.exit(main())
