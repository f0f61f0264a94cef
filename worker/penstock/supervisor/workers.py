"""The keepers' processes: started in groups of their own, restarted, and never left behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from penstock.base.limits import (
    RESTART_BACKOFF_FIRST_S,
    RESTART_BACKOFF_MAX_S,
    RETIRE_TIMEOUT_S,
    SOUND_LIFE_S,
)
from penstock.cluster.launch import KeeperLaunch
from penstock.contract.codec import encode
from penstock.contract.ids import Ordinal
from penstock.supervisor.folders import JobFolder, write_private

FAILURES_SHOWN = 3  # one may be an accident


class KeeperProcess(Protocol):
    """A keeper that was started, with the engine that it starts; ``pid`` is its process."""

    pid: int

    def ended(self) -> bool:
        """Say whether it has ended by itself; :meth:`wait` is still due then."""
        ...

    def wait_for_end(self) -> None:
        """Block until it has ended, and leave its status to :meth:`wait`. From any thread."""
        ...

    def wait(self) -> int:
        """Block until it has ended and return its status, a signal as its negative; once."""
        ...

    def terminate(self) -> None:
        """Ask it to end."""
        ...

    def kill(self) -> None:
        """End it and its engine now; before :meth:`wait`, also when it has ended."""
        ...


StartKeeper = Callable[[KeeperLaunch, Path], KeeperProcess]  # what it says goes to the file


class KeeperChild:
    """A keeper as a process of its own, in a group with its engine."""

    def __init__(self, launch: KeeperLaunch, log: Path) -> None:
        """Start it. Its secret is in a file that only its user can read, next to ``log``."""
        file = log.with_name("keeper.json")
        write_private(file, encode(launch))
        command = [sys.executable, "-m", "penstock.keeper", str(file), str(os.getpid())]
        with log.open("ab") as said:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, process_group=0
            )
        self.pid = self._process.pid

    def ended(self) -> bool:
        """Look without taking the status."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    def wait_for_end(self) -> None:
        """Wait without taking the status."""
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def wait(self) -> int:
        """Take the status."""
        return self._process.wait()

    def terminate(self) -> None:
        """Send SIGTERM to the keeper, which ends its engine."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the group. Until it is waited for the id is its own; its group may outlive it."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


@dataclass(slots=True)
class WorkerProcess:
    """One ordinal. ``process`` None: not running, to be started at ``start_at``.

    ``failures`` counts lives that ended soon and by themselves, in a row. ``problem``: why it could not be started.
    """

    ordinal: Ordinal
    process: KeeperProcess | None = None
    started_at: float = 0.0
    start_at: float = 0.0
    backoff_s: float = RESTART_BACKOFF_FIRST_S
    starts: int = 0
    failures: int = 0
    status: int = 0
    problem: str = ""
    kill_at: float | None = None


class Workers:
    """Used by the supervisor's loop only. Starting and reaping happen in :meth:`run_all`.

    All processes are started by one thread, because the kernel ends them with that thread.
    """

    def __init__(
        self,
        folder: JobFolder,
        launch: Callable[[Ordinal], KeeperLaunch],
        on_exit: Callable[[], None],
        start: StartKeeper = KeeperChild,
    ) -> None:
        """``on_exit`` is called by another thread whenever a process ends."""
        self._folder = folder
        self._start_keeper = start
        self._launch = launch
        self._on_exit = on_exit
        self._workers: dict[Ordinal, WorkerProcess] = {}

    def run_all(self, needed: int) -> list[str]:
        """Start the workers below ``needed`` and end all others. Returns what changed, in words."""
        now = time.monotonic()
        news = [text for worker in self._workers.values() for text in self._reap(worker, now)]
        for ordinal in [w.ordinal for w in self._workers.values() if _is_done(w, needed)]:
            del self._workers[ordinal]
        for number in range(needed):
            worker = self._workers.setdefault(Ordinal(number), WorkerProcess(Ordinal(number)))
            if worker.process is None and worker.start_at <= now:
                news.append(self._start(worker, now))
        for worker in self._workers.values():
            if worker.ordinal >= needed and worker.process is not None and worker.kill_at is None:
                worker.process.terminate()
                worker.kill_at = now + RETIRE_TIMEOUT_S + 1.0
                news.append(f"worker {worker.ordinal} told to end")
            if worker.kill_at is not None and worker.kill_at <= now:
                self.kill(worker.ordinal)
                worker.kill_at = now + RETIRE_TIMEOUT_S  # a process that waits for a disk ends later: no loop meanwhile
        return news

    def kill(self, ordinal: Ordinal) -> None:
        """End a keeper and its engine now, even when they are stopped."""
        process = self._workers[ordinal].process
        if process is not None:
            process.kill()

    def kill_all(self) -> None:
        """End everything now, and wait for it."""
        running = [w for w in self._workers.values() if w.process is not None]
        for worker in running:
            self.kill(worker.ordinal)
        for worker in running:
            if worker.process is not None:
                worker.process.wait()
                worker.process = None

    def pid(self, ordinal: Ordinal) -> int | None:
        """Return the keeper's process id; None when it does not run."""
        worker = self._workers.get(ordinal)
        return None if worker is None or worker.process is None else worker.process.pid

    def restarts(self, ordinal: Ordinal) -> int:
        """Say how often a keeper was started again."""
        worker = self._workers.get(ordinal)
        return 0 if worker is None else max(0, worker.starts - 1)

    def pids(self) -> dict[Ordinal, int]:
        """Return the process ids of the keepers that run; may be called by any thread."""
        workers = list(self._workers.values())
        return {w.ordinal: p.pid for w in workers if (p := w.process) is not None}

    def trouble(self) -> str | None:
        """Say which keeper fails again and again, and where its reason is; None when none does."""
        for worker in list(self._workers.values()):
            if worker.failures >= FAILURES_SHOWN and worker.problem:
                return worker.problem
            if worker.failures >= FAILURES_SHOWN:
                log = self._folder.worker(worker.ordinal) / "log"
                return f"worker {worker.ordinal} keeps ending (status {worker.status}): see {log}"
        return None

    def next_due(self) -> float | None:
        """Return when :meth:`run_all` has something to do next."""
        starts = [w.start_at for w in self._workers.values() if w.process is None]
        kills = [w.kill_at for w in self._workers.values() if w.kill_at is not None]
        return min(starts + kills, default=None)

    def _reap(self, worker: WorkerProcess, now: float) -> list[str]:
        if worker.process is None or not worker.process.ended():
            return []
        # The keeper's engine ends with its socket; this makes sure of it and of its children.
        # Before the wait, because only until then the id cannot be another group's.
        worker.process.kill()
        status = worker.process.wait()
        sound = now - worker.started_at > SOUND_LIFE_S
        # A signal comes from outside; an exit status is the keeper's own.
        worker.failures = 0 if sound or status <= 0 else worker.failures + 1
        worker.status = status
        worker.backoff_s = RESTART_BACKOFF_FIRST_S if sound else min(worker.backoff_s * 2, RESTART_BACKOFF_MAX_S)
        worker.start_at = now if sound or worker.starts == 1 else now + worker.backoff_s
        worker.process, worker.kill_at = None, None
        return [f"worker {worker.ordinal} ended (status {status})"]

    def _start(self, worker: WorkerProcess, now: float) -> str:
        """Start it, or try again later where the system cannot now. Returns what has happened, in words."""
        try:
            log = self._folder.worker(worker.ordinal) / "log"
            process = self._start_keeper(self._launch(worker.ordinal), log)
        except OSError as error:  # a full disk, or no room for a process: the other workers go on
            where = "" if error.filename is None else f"{error.filename}: "
            worker.problem = f"worker {worker.ordinal} cannot be started: {where}{error.strerror}"
            worker.failures += 1
            worker.start_at = now + worker.backoff_s
            worker.backoff_s = min(worker.backoff_s * 2, RESTART_BACKOFF_MAX_S)
            return worker.problem
        if worker.problem:
            worker.problem, worker.failures, worker.backoff_s = "", 0, RESTART_BACKOFF_FIRST_S
        worker.process = process
        worker.started_at = now
        worker.starts += 1
        threading.Thread(target=self._watch, args=(process,), daemon=True).start()
        return f"worker {worker.ordinal} started (pid {process.pid})"

    def _watch(self, process: KeeperProcess) -> None:
        process.wait_for_end()  # the status is left for the loop, which reaps
        self._on_exit()


def _is_done(worker: WorkerProcess, needed: int) -> bool:
    return worker.process is None and worker.ordinal >= needed
