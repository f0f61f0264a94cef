"""Equipment monitoring in many jobs at once: their rate together, and what a job at rest takes.

    python -m bench.concurrent_jobs [JOBS ...] [--rows N] [--rest SECONDS] [--turns N] [--out FOLDER]

Each job is ``penstock run`` of the example ``equipment``, with one worker. Its source has readings in memory. It begins
when a file appears, so all jobs run before the first row is read. Until then they are at rest, and the CPU time and the
memory of a job at rest are measured: of all its processes, and a page that several have counts in parts. ``rows`` are
those of all jobs together. The rate is the sum over the jobs, while all of them read. The delays of each job are
counted and compared.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from bench import applications, machine, processes, records, runner
from bench.altered import block, delays_of
from bench.draw import pictures
from bench.endings import end_with_children
from bench.records import Record
from bench.samples import Series
from bench.timeline import value_at
from penstock.contract.status import JobState

TITLE = "equipment monitoring: many jobs at once on two processors"
LOOK_EVERY_S = 0.05
SETTLE_S = 2.0  # between the start of the last job and the time at rest
MIB = 2**20


class Job:
    """A job of its own, and what it has told."""

    def __init__(self, folder: Path, rows: int, gate: Path) -> None:
        """Start it."""
        folder.mkdir()
        file = applications.altered("equipment", "gated", folder, rows=rows, gate=str(gate), machines="true")
        command = [sys.executable, "-m", "penstock.cli", "run", str(file), "--workers", "1", "--json"]
        command += ["--dir", str(folder / "state")]
        unbuffered = runner.environment(runner.ROOT) | {"PYTHONUNBUFFERED": "1"}
        with (folder / "log").open("w") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=unbuffered)
        self.rows = rows
        self.is_running = False
        self.read: Series = []
        self.delays = 0
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None, "it was asked for"
        for line in self.process.stdout:
            at, status = time.monotonic(), json.loads(line)
            if not status.get("steps"):
                continue
            steps = {step["name"]: step for step in status["steps"]}
            self.read.append((at, steps["readings"]["rows_in"]))
            self.delays = steps["delays_out"]["rows_in"]
            self.is_running |= status["state"] == JobState.RUNNING

    def processes(self) -> list[int]:
        """List its processes."""
        return processes.tree(self.process.pid)

    def wait(self) -> None:
        """Wait for its end."""
        self.process.wait()
        self._listener.join()


def measure(count: int, rows: int, rest_s: float) -> Record:
    """Run so many jobs once."""
    size = len(block())
    turns = max(rows // count // size, 1)
    others = processes.Others()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        gate = folder / "gate"
        jobs = [Job(folder / str(n), turns * size, gate) for n in range(count)]
        try:
            results = _run(jobs, gate, rest_s)
        finally:
            for job in jobs:
                job.process.kill()  # its workers end with it
    found = together(jobs)
    wrong = [f"exit status {job.process.returncode}" for job in jobs if job.process.returncode]
    wanted = turns * delays_of(block())
    wrong += [f"{job.delays} delays, not {wanted}" for job in jobs if job.delays != wanted]
    if not found:
        wrong.append(f"{rows} rows are too few: not all jobs were seen to read at one time")
    results |= found | {"others_share": others.share()}
    label = f"jobs jobs={count}"
    print(f"   {label:16} {results}  {wrong or 'exact'}", flush=True)
    cell = {"jobs": count, "rows": turns * size * count}
    return {"name": label, "scenario": cell, "exact": not wrong, "wrong": wrong, "results": results}


def _run(jobs: list[Job], gate: Path, rest_s: float) -> dict[str, float]:
    """Run jobs to their end. Returns what they take at rest."""
    while not all(job.is_running for job in jobs):
        ended = [job for job in jobs if job.process.poll() is not None]
        assert not ended, f"a job has ended with {ended[0].process.returncode} before it ran"
        time.sleep(LOOK_EVERY_S)
    time.sleep(SETTLE_S)
    results = at_rest(jobs, rest_s)
    gate.touch()
    for job in jobs:
        job.wait()
    return results


def at_rest(jobs: list[Job], rest_s: float) -> dict[str, float]:
    """Return the share of a processor and the memory of a job that waits for rows."""
    pids = [pid for job in jobs for pid in job.processes()]
    begun, used = time.monotonic(), processes.cpu_s(pids)
    time.sleep(rest_s)
    share = (processes.cpu_s(pids) - used) / (time.monotonic() - begun) / len(jobs)
    own = processes.proportional_bytes(pids) / MIB / len(jobs)
    return {"rest_cpu_share": round(share, 4), "rest_mib": round(own, 1)}


def together(jobs: list[Job]) -> dict[str, float]:
    """Return the rate of all jobs while all of them read; empty if no two statuses of each say so."""
    begun = max(min((at for at, rows in job.read if rows), default=float("inf")) for job in jobs)
    ended = min(max((at for at, rows in job.read if rows < job.rows), default=0.0) for job in jobs)
    if ended <= begun:
        return {}
    read = sum(value_at(job.read, ended) - value_at(job.read, begun) for job in jobs)
    return {"rows_per_s": round(read / (ended - begun)), "measured_s": round(ended - begun, 1)}


def main(arguments: list[str] | None = None) -> int:
    """Measure the numbers of jobs named on the command line, or the sweep; exit 0 when all counts were exact."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.concurrent_jobs")
    parser.add_argument("jobs", nargs="*", type=int, default=[1, 2, 4, 8, 16, 32], metavar="JOBS")
    parser.add_argument("--rows", type=int, default=100_000_000, help="of all jobs together")
    parser.add_argument("--rest", type=float, default=10.0, help="seconds at rest")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--out", type=Path, default=records.OUT, help="folder of the results")
    options = parser.parse_args(arguments)
    end_with_children()
    made_on, runs = machine.describe(), []
    for _ in range(options.turns):
        runs += [measure(count, options.rows, options.rest) for count in options.jobs]
    stem, record = records.of_scenario("jobs", TITLE, "bench.concurrent_jobs", made_on, runs)
    print(f"   kept in {records.write(stem, record, options.out)}")
    pictures.draw(record, options.out / stem)
    return 0 if all(run["exact"] for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
