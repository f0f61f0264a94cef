"""The published applications by the number of replicas of each step, on two workers.

    python -m bench.replicas [APPLICATION ...] [--replicas N ...] [--turns N] [--scale X] [--out FOLDER]

The rates are those of ``bench.applications``. With one replica all tasks are in the first worker.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from bench import applications, machine, processes, records
from bench.application_inputs import APPLICATIONS
from bench.draw import pictures
from bench.records import Record

TITLE = "published applications: rate by the number of replicas of each step"
NAMES = ("wordcount", "fraud", "spike", "routing", "equipment")
WORKERS = 2


def measure(folder: Path, name: str, replicas: int, turn: int, scale: float) -> Record:
    """Run an application once with so many replicas."""
    application, others = APPLICATIONS[name], processes.Others()
    run = applications.run(folder, application, int(application.rows * scale), WORKERS, replicas)
    results, wrong = run.figures(), run.wrong()
    results["others_share"] = others.share()
    label = f"replicas name={name},replicas={replicas}"
    print(f"   {label:40} {results}  {wrong or 'exact'}", flush=True)
    cell = {"name": name, "rows": run.rows, "replicas": replicas, "workers": WORKERS}
    return {"name": label, "turn": turn, "scenario": cell, "exact": not wrong, "wrong": wrong, "results": results}


def main(arguments: list[str] | None = None) -> int:
    """Measure the applications named on the command line, or all; exit 0 when all counts were exact."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.replicas")
    parser.add_argument("application", nargs="*", default=NAMES, metavar="APPLICATION")
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--scale", type=float, default=0.5, help="of the numbers of rows of bench.applications")
    parser.add_argument("--out", type=Path, default=records.OUT, help="folder of the results")
    options = parser.parse_args(arguments)
    made_on, runs = machine.describe(), []
    for name in options.application:
        with tempfile.TemporaryDirectory() as folder:
            for turn in range(options.turns):
                runs += [measure(Path(folder), name, count, turn, options.scale) for count in options.replicas]
    stem, record = records.of_scenario("replicas", TITLE, "bench.replicas", made_on, runs)
    print(f"   kept in {records.write(stem, record, options.out)}")
    pictures.draw(record, options.out / stem)
    return 0 if all(run["exact"] for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
