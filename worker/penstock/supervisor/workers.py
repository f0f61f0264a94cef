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


@dataclass(slots=True)
class Worker:
    """One ordinal. ``process`` None: not running, to be started at ``start_at``.

    ``failures`` counts lives that ended soon and by themselves, in a row.
    """

    ordinal: Ordinal
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    start_at: float = 0.0
    backoff_s: float = RESTART_BACKOFF_FIRST_S
    starts: int = 0
    failures: int = 0
    status: int = 0
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
    ) -> None:
        """``on_exit`` is called by another thread whenever a process ends."""
        self._folder = folder
        self._launch = launch
        self._on_exit = on_exit
        self._workers: dict[Ordinal, Worker] = {}

    def run_all(self, needed: int) -> list[str]:
        """Have ordinals below ``needed`` run and all others end. Returns the news, in words."""
        now = time.monotonic()
        news = [text for worker in self._workers.values() for text in self._reap(worker, now)]
        for ordinal in [w.ordinal for w in self._workers.values() if _is_done(w, needed)]:
            del self._workers[ordinal]
        for number in range(needed):
            worker = self._workers.setdefault(Ordinal(number), Worker(Ordinal(number)))
            if worker.process is None and worker.start_at <= now:
                self._start(worker, now)
                news.append(f"worker {number} started (pid {self.pid(worker.ordinal)})")
        for worker in self._workers.values():
            if worker.ordinal >= needed and worker.process is not None and worker.kill_at is None:
                self._signal(worker, signal.SIGTERM)
                worker.kill_at = now + RETIRE_TIMEOUT_S + 1.0
                news.append(f"worker {worker.ordinal} told to end")
            if worker.kill_at is not None and worker.kill_at <= now:
                self.kill(worker.ordinal)
        return news

    def kill(self, ordinal: Ordinal) -> None:
        """End a keeper and its engine now, even when they are stopped."""
        self._signal(self._workers[ordinal], signal.SIGKILL)

    def kill_all(self) -> None:
        """End everything now, and wait for it."""
        for worker in self._workers.values():
            self._signal(worker, signal.SIGKILL)
        for worker in self._workers.values():
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
            if worker.failures >= FAILURES_SHOWN:
                log = self._folder.worker(worker.ordinal) / "log"
                return f"worker {worker.ordinal} keeps ending (status {worker.status}): see {log}"
        return None

    def next_due(self) -> float | None:
        """Say when :meth:`run_all` has something to do by itself."""
        starts = [w.start_at for w in self._workers.values() if w.process is None]
        kills = [w.kill_at for w in self._workers.values() if w.kill_at is not None]
        return min(starts + kills, default=None)

    def _reap(self, worker: Worker, now: float) -> list[str]:
        if worker.process is None or not _has_ended(worker.process.pid):
            return []
        # The keeper's engine ends with its socket; this makes sure of it and of its children.
        # Before the wait, because only until then the id cannot be another group's.
        self._signal(worker, signal.SIGKILL)
        status = worker.process.wait()
        sound = now - worker.started_at > SOUND_LIFE_S
        # A signal comes from outside; an exit status is the keeper's own.
        worker.failures = 0 if sound or status <= 0 else worker.failures + 1
        worker.status = status
        worker.backoff_s = (
            RESTART_BACKOFF_FIRST_S if sound else min(worker.backoff_s * 2, RESTART_BACKOFF_MAX_S)
        )
        worker.start_at = now if sound or worker.starts == 1 else now + worker.backoff_s
        worker.process, worker.kill_at = None, None
        return [f"worker {worker.ordinal} ended (status {status})"]

    def _start(self, worker: Worker, now: float) -> None:
        folder = self._folder.worker(worker.ordinal)
        file = folder / "keeper.json"
        write_private(file, encode(self._launch(worker.ordinal)))
        command = [sys.executable, "-m", "penstock.keeper", str(file), str(os.getpid())]
        with (folder / "log").open("ab") as log:
            worker.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
            )
        worker.started_at = now
        worker.starts += 1
        args = (worker.process,)
        threading.Thread(target=self._watch, args=args, daemon=True).start()

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        # The status is left for the loop, which reaps.
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        self._on_exit()

    def _signal(self, worker: Worker, number: signal.Signals) -> None:
        if worker.process is not None:
            # Until it is reaped the id is the process's own; its group may outlive it.
            with suppress(ProcessLookupError):
                if number is signal.SIGTERM:
                    worker.process.send_signal(number)
                else:
                    os.killpg(worker.process.pid, number)


def _is_done(worker: Worker, needed: int) -> bool:
    return worker.process is None and worker.ordinal >= needed


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
