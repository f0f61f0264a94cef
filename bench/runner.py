"""Runs one scenario as a user would, ``penstock run FILE --json``, and watches it."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import yaml

from bench import garbage, link, processes, sends, texts
from bench.disturb import Disturber, Target
from bench.jobs import job_name
from bench.samples import Samples
from bench.scenario import Scenario
from penstock.connectors.discard_sink import read_reports

SAMPLE_INTERVAL_S = 0.25
LOOK_FOR_OUTPUT_S = 0.02
ROOT = Path(__file__).resolve().parent.parent
_PAUSE = re.compile(
    r"event=rescale_(?P<what>released|resumed) task=(?P<task>\S+) version=(?P<version>\d+)"
    r" (?:moved_ms=(?P<moved>[0-9.]+)|aligned_ms=(?P<aligned>[0-9.]+) load_ms=(?P<load>[0-9.]+))"
)


def run(scenario: Scenario, folder: Path, source: Path = ROOT) -> Samples:
    """Run to the end of the input. ``folder`` is new; logs and reports stay in it.

    ``source`` is the root of the Penstock that runs: this one, or another revision of it.
    """
    file, report, state = folder / "job.yaml", folder / "report", folder / "state"
    file.write_text(yaml.safe_dump(scenario.job(report), sort_keys=False))
    samples = Samples(begun=time.monotonic())
    command = [sys.executable, "-m", "penstock.cli", "run", str(file), "--json"]
    with (folder / "run.log").open("w") as log:
        process = subprocess.Popen(
            link.command(scenario.link, [*command, "--dir", str(state)]),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=source,
            env=environment(source) | _choices(scenario, folder),
        )
        helpers = Helpers(samples, report, process.pid, switches=scenario.switches)
        disturber = Disturber(scenario.disturb, Target(state, job_name(scenario)), samples)
        disturber.start()
        try:
            with texts.pushed(scenario, report, process):
                _listen(process, samples)
        finally:
            process.kill()  # its workers end with it
            disturber.stop()
            helpers.stop()
    samples.seconds = time.monotonic() - samples.begun
    samples.totals = read_reports(report)
    samples.shed = sends.shed_rows(report)
    samples.collections = garbage.read(report)
    samples.pauses = pauses(sorted((state / job_name(scenario) / "workers").glob("*/log")))
    return samples


def environment(source: Path) -> dict[str, str]:
    """Return the environment in which the Penstock below ``source`` is the one imported."""
    here = [str(source / "worker"), str(source)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(here)}


def _choices(scenario: Scenario, folder: Path) -> dict[str, str]:
    cold = {"PENSTOCK_KERNEL_CACHE": str(folder / "kernels")} if scenario.cold else {}
    return cold | ({"ARROW_DEFAULT_MEMORY_POOL": scenario.pool} if scenario.pool else {})


def _listen(process: "subprocess.Popen[str]", samples: Samples) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        status = json.loads(line)
        if "note" not in status:
            samples.statuses.append({"at": time.monotonic() - samples.begun, **status})
    samples.exit_code = process.wait()


class Helpers:
    """Threads that sample the processes and the output while the job runs."""

    def __init__(self, samples: Samples, report: Path, pid: int, *, switches: bool) -> None:
        """Start to sample, also context switches if so told. ``pid`` is in the network namespace of the engines."""
        self._samples = samples
        self._switches = switches
        self._pid = pid
        self._report = report
        self._cpu: dict[int, float] = {}  # for every engine of the run, also those that have ended
        self._over = Event()
        self._threads = [
            Thread(target=self._every, args=(SAMPLE_INTERVAL_S, self._sample), daemon=True),
            Thread(target=self._every, args=(LOOK_FOR_OUTPUT_S, self._look), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop sampling."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _every(self, interval_s: float, look: Callable[[], bool]) -> None:
        while not self._over.wait(interval_s) and look():
            pass

    def _sample(self) -> bool:
        self._samples.stolen.append((time.monotonic() - self._samples.begun, processes.stolen_s()))
        if self._samples.statuses:
            workers: list[dict[str, Any]] = self._samples.statuses[-1].get("workers", [])
            pids = [w["engine_pid"] for w in workers if w["engine_pid"]]
            at = time.monotonic() - self._samples.begun
            self._samples.memory.append((at, processes.resident_bytes(pids)))
            self._cpu |= {pid: s for pid in pids if (s := processes.cpu_s([pid]))}
            self._samples.cpu.append((at, sum(self._cpu.values())))
            if self._switches:
                self._samples.switches.append((at, processes.context_switches(pids)))
            if (carried := processes.loopback_bytes(self._pid)) is not None:
                self._samples.wire.append((at, carried))
        return True

    def _look(self) -> bool:
        if self._report.is_dir() and any(self._report.glob("*.json")):
            self._samples.first_file_s = time.monotonic() - self._samples.begun
            return False
        return True


def pauses(logs: list[Path]) -> list[dict[str, Any]]:
    """Read from the engines' logs how long each rescale stopped the rows of a task, in ms.

    ``moved``: from the barrier at a sender to the release of what it held; ``aligned``: while a
    task waited for all barriers; ``load``: while it took over state. None where it does not apply.
    """
    found = []
    for log in logs:
        for match in _PAUSE.finditer(log.read_text(errors="replace")):
            times = {k: float(v) if (v := match[k]) else None for k in ("moved", "aligned", "load")}
            found.append({"task": match["task"], "version": int(match["version"]), **times})
    return found
