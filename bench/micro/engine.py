"""CPU time of the whole hot path by thread: two engines in one process, no keeper, no checkpoints.

    python -m bench.micro.engine [--rows 8192] [--payload 32] [--workers 2] [--seconds 3]

The network word count between the tasks of the workers: sources, key hash, split, channels (in
memory and over Flight), running count, discard sink. For each kind of thread: nanoseconds of CPU
per row, and microseconds per batch of the source. With ``--rows 10`` nearly all of it is Python.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from bench.scenario import Scenario
from penstock.base.values import replace
from penstock.cluster.system import SystemClock
from penstock.connectors.open_connectors import ConnectorInspector
from penstock.contract import control_messages as c
from penstock.contract.ids import Attempt, Epoch, Incarnation, JobUid, Ordinal, Term
from penstock.contract.latest import Member
from penstock.contract.plan import first_assignment
from penstock.engine.build import JobParts
from penstock.engine.main import SWITCH_INTERVAL_S, set_up_process
from penstock.engine.worker import Worker
from penstock.graph import load_job
from penstock.storage.blobs import DirectoryBlobStore
from penstock.transport.exchange import Identity

ROWS = 1 << 40  # more than are ever read
KINDS = {"task-0": "source", "task-1": "count", "sender": "send", "link": "credit"}
WARM_UP_S = 1.0


class Rig:
    """The workers of one job in this process. The program gives the commands of a leader."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        """Make the workers and warm their kernels."""
        file = folder / "job.yaml"
        file.write_text(yaml.safe_dump(scenario.job(folder / "report")))
        self._job = load_job(file, ConnectorInspector())
        self.workers = [self._worker(n, folder) for n in range(scenario.workers)]

    def _worker(self, number: int, folder: Path) -> Worker:
        identity = Identity(JobUid("bench"), Ordinal(number), Incarnation(f"life-{number}"))
        parts = JobParts(self._job, identity, folder / f"scratch-{number}")
        parts.warm()
        self._parts = parts
        return Worker(
            identity.ordinal,
            identity.incarnation,
            parts,
            DirectoryBlobStore(folder / "blobs"),
            say=_hear,
            clock=SystemClock(),
            heartbeat_interval_s=1.0,
            warmed=threading.Event(),
        )

    def start(self) -> None:
        """Build all tasks, then let rows flow."""
        splits = self._parts.first_splits([s.index for s in self._job.plan.stages])
        names = {group.stage: tuple(s.split for s in group.splits) for group in splits}
        table = first_assignment(self._job.plan, len(self.workers), names)
        members = tuple(
            Member(Ordinal(n), Incarnation(f"life-{n}"), "", worker.address) for n, worker in enumerate(self.workers)
        )
        attempt = Attempt(1)
        order = c.Reset(attempt, Epoch(0), None, table, members, splits)
        for worker in self.workers:
            worker.command(Term(1), order)
        for worker in self.workers:
            worker.command(Term(1), c.Start(attempt))


def _hear(report: Any) -> None:
    if isinstance(report, c.Broken):
        print(report.reason, file=sys.stderr)


def cpu_by_thread() -> Counter[str]:
    """Return the CPU time of the process so far (ns) by kind of thread, as the kernel counts it."""
    names = {t.native_id: t.name for t in threading.enumerate()}
    used: Counter[str] = Counter()
    for folder in Path("/proc/self/task").iterdir():
        spent = int((folder / "schedstat").read_text().split()[0])
        name = names.get(int(folder.name), "grpc")
        kind = next((k for k in KINDS if name.startswith(k)), "grpc" if "Dummy" in name else "rest")
        used[KINDS.get(kind, kind)] += spent
    return used


def counted() -> int:
    """Return the rows that all counting tasks have taken so far."""
    found = [t for t in threading.enumerate() if t.name.startswith("task-1")]
    return sum(t.standing.rows_in for t in found)  # type: ignore[attr-defined]


def main() -> None:
    """Measure one case and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=8192, help="of a batch of the source")
    parser.add_argument("--payload", type=int, default=32)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    set_up_process()
    scenario = Scenario("micro", "", options.workers, options.payload, options.keys, rows=ROWS)
    scenario = replace(scenario, batch_rows=options.rows)
    with tempfile.TemporaryDirectory() as name:
        rig = Rig(scenario, Path(name))
        rig.start()
        while not counted():
            time.sleep(WARM_UP_S)
        time.sleep(WARM_UP_S)
        rows, cpu, begun = counted(), cpu_by_thread(), time.monotonic()
        time.sleep(options.seconds)
        rows, took = counted() - rows, time.monotonic() - begun
        cpu = cpu_by_thread() - cpu
        show(options.rows, rows, took, cpu)
        sys.stdout.flush()
    os._exit(0)  # a normal exit would wait for the open streams


def show(batch_rows: int, rows: int, took: float, cpu: Counter[str]) -> None:
    """Print the rate, and the CPU by kind of thread."""
    print(f"{rows / took / 1e6:.2f} M rows/s    ns of CPU a row, us a batch of {batch_rows} rows")
    for kind, spent in [*cpu.most_common(), ("all", cpu.total())]:
        ns = spent / rows
        print(f"{kind:8} {ns:29.1f} {ns * batch_rows / 1e3:10.1f}")


if __name__ == "__main__":
    main()
