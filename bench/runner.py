"""Runs one scenario as a user would, ``penstock run FILE --json``, and watches it."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import yaml

from bench.scenario import Scenario
from penstock.connectors.discard_sink import read_reports

SAMPLE_INTERVAL_S = 0.25


@dataclass(slots=True)
class Samples:
    """Raw samples of a run. Times are seconds since its start; rows are cumulative."""

    statuses: list[dict[str, Any]] = field(default_factory=list)
    memory: list[tuple[float, int]] = field(default_factory=list)  # bytes of all engines
    cpu: list[tuple[float, float]] = field(default_factory=list)  # their CPU seconds so far
    totals: dict[str, int] = field(default_factory=dict)
    exit_code: int = -1
    seconds: float = 0.0

    def step(self, name: str, what: str) -> list[tuple[float, int]]:
        """Return (time, value) of one counter of one step."""
        found: list[tuple[float, int]] = []
        for status in self.statuses:
            steps = [step for step in status["steps"] if step["name"] == name]
            found.extend((status["at"], step[what]) for step in steps)
        return found

    def epochs(self) -> list[dict[str, Any]]:
        """List the committed checkpoints that were seen, each once."""
        seen = {s["checkpoint"]["epoch"]: s["checkpoint"] for s in self.statuses if s["checkpoint"]}
        return [seen[epoch] for epoch in sorted(seen)]


def run(scenario: Scenario, folder: Path) -> Samples:
    """Run to the end of the input. ``folder`` is new; logs and reports stay in it."""
    file, report = folder / "job.yaml", folder / "report"
    file.write_text(yaml.safe_dump(scenario.job(report), sort_keys=False))
    samples = Samples()
    start = time.monotonic()
    with (folder / "run.log").open("w") as log:
        command = [sys.executable, "-m", "penstock.cli", "run", str(file), "--json"]
        command += ["--dir", str(folder / "state")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        over = Event()
        watcher = Thread(target=_watch, args=(samples, start, over), daemon=True)
        watcher.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                _hear(samples, line, time.monotonic() - start)
            samples.exit_code = process.wait()
        finally:
            process.kill()  # its workers end with it
            over.set()
            watcher.join()
    samples.seconds = time.monotonic() - start
    samples.totals = read_reports(report)
    return samples


def _hear(samples: Samples, line: str, at: float) -> None:
    status = json.loads(line)
    if "note" not in status:
        samples.statuses.append({"at": at, **status})


def _watch(samples: Samples, start: float, over: Event) -> None:
    while not over.wait(SAMPLE_INTERVAL_S):
        if samples.statuses:
            workers = samples.statuses[-1].get("workers", ())
            pids = [w["engine_pid"] for w in workers if w["engine_pid"]]
            size = sum(_resident(pid) for pid in pids)
            samples.memory.append((time.monotonic() - start, size))
            samples.cpu.append((time.monotonic() - start, sum(_cpu_s(pid) for pid in pids)))


def _resident(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0  # it has just ended
    for line in text.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0  # it has just ended
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
