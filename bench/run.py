"""``make bench``: run scenarios, check every count, print a table, keep JSON and a plot.

    python -m bench.run [SCENARIO ...] [--quick] [--set NAME=VALUE ...] [--out FOLDER]

Exit 0 when every run was exact. A target that was missed is shown, and is no failure: the
machine decides it.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import tomllib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bench import machine, oracle, plot, results, runner
from bench.scenario import Scenario, load, names

OUT = Path(__file__).parent / "results"
QUICK_SHARE = 10  # --quick: a tenth of the rows and the time


def main() -> int:
    """Run the scenarios named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", nargs="*", help=f"of {', '.join(names())}; default: all")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="change a field of the scenario, like payload=256 (for sweeps)",
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the time")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the results")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    made_on = machine.describe()
    print(f"== {made_on['cpu']}, {made_on['cores']} cores, revision {made_on['revision']}")
    changes = {k: tomllib.loads(f"x = {v}")["x"] for k, v in (s.split("=", 1) for s in options.set)}
    exact = True
    for name in options.scenario or names():
        scenario = replace(load(name), **changes)
        exact &= measure(_shorter(scenario) if options.quick else scenario, made_on, options.out)
    return 0 if exact else 1


def measure(scenario: Scenario, made_on: dict[str, Any], out: Path) -> bool:
    """Run one scenario; say and keep what came of it. True when it was exact."""
    print(f"\n== {scenario.name}: {scenario.title}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    load_before = os.getloadavg()[0]
    samples = runner.run(scenario, folder)
    wrong = oracle.differences(oracle.expected(scenario), samples.totals)
    if samples.exit_code:
        wrong.insert(0, f"penstock run ended with {samples.exit_code}: see {folder}/run.log")
    found = results.figures(scenario, samples)
    # Waiting for a processor before it began: above 0.5 or so the figures are not the engine's.
    found["load_before"] = round(load_before, 1)
    stem = f"{scenario.name}-{made_on['revision']}-{time.strftime('%Y%m%dT%H%M%S')}"
    plot.draw(scenario, samples, found, out / f"{stem}.png")
    record = {
        "scenario": asdict(scenario),
        "machine": made_on,
        "results": found,
        "exact": not wrong,
        "totals": samples.totals,
        "samples": {
            "source": samples.step("words", "rows_out"),
            "counted": samples.step("counts", "rows_in"),
            "queued_bytes": samples.step("counts", "queue_bytes"),
            "memory": samples.memory,
            "checkpoints": samples.epochs(),
        },
    }
    (out / f"{stem}.json").write_text(json.dumps(record, indent=1))
    show(scenario, found, wrong)
    print(f"   kept in {out / stem}.json and .png")
    if not wrong:
        shutil.rmtree(folder)
    return not wrong


def show(scenario: Scenario, found: dict[str, Any], wrong: list[str]) -> None:
    """Print the results of one run as a table."""
    targets = {target.name: target for target in scenario.targets}
    for name, value in found.items():
        target = targets.get(name)
        verdict = ""
        if target is not None:
            verdict = f"target {target}: {'met' if target.met(found) else 'MISSED'}"
        print(f"   {name:26s} {value:>16,.6g}  {verdict}")
    print(f"   {'exact':26s} {'yes' if not wrong else 'NO':>16}")
    for line in wrong:
        print(f"      {line}")


def _shorter(scenario: Scenario) -> Scenario:
    rows = scenario.rows // QUICK_SHARE if scenario.rows else None
    return replace(
        scenario,
        rows=rows,
        seconds=scenario.seconds / QUICK_SHARE,
        warmup_s=1.0,
        stall_after=scenario.stall_after / QUICK_SHARE,
        stall_for=scenario.stall_for / QUICK_SHARE,
    )


if __name__ == "__main__":
    sys.exit(main())
