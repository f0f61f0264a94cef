"""One ``penstock run`` in a process of its own, watched through its status and its output."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from penstock.base.errors import BusyError, ConfigError, PeerError, PenstockError, StorageError
from penstock.cli.exits import Exit
from penstock.contract.status import ENDED, CheckpointStatus, JobState, JobStatus, WorkerStatus
from penstock.supervisor import connect
from penstock.supervisor.client import JobClient

LOOK_INTERVAL_S = 0.05
LAST_LINES_CHARS = 4000


class DemoError(PenstockError):
    """The job did not do what the demo needs. The message says what the demo waited for."""


@dataclass(frozen=True, slots=True)
class JobFiles:
    """Where a run reads and writes; all below one folder of the demo's own."""

    name: str
    file: Path
    settings: Sequence[str]
    output: Path
    state: Path
    log: Path


@dataclass(slots=True)
class JobObservation:
    """What the watcher has seen: the newest status, each checkpoint once, and the time of the first output."""

    status: JobStatus | None = None
    checkpoints: dict[int, CheckpointStatus] = field(default_factory=dict)
    first_output_s: float | None = None


class RunningJob:
    """A job that runs until it ends by itself or :meth:`end` is called."""

    def __init__(self, files: JobFiles, workers: int) -> None:
        """Start the job, and a thread that reads its status twenty times a second."""
        self._files = files
        self._log = files.log.open("wb")
        self.begun = time.monotonic()
        self._process = subprocess.Popen(command(files, workers), stdout=self._log, stderr=subprocess.STDOUT)
        self.seen = JobObservation()
        self._client: JobClient | None = None
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self._watcher.start()

    @property
    def running(self) -> bool:
        """Return whether the process runs."""
        return self._process.poll() is None

    def wait(self, timeout_s: float) -> int:
        """Wait for the end; return the exit code. Raises DemoError when it takes too long."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise DemoError(f"the job has not ended after {timeout_s:.0f} s{self.words()}") from error
        self._over.set()
        self._watcher.join()
        return code

    def until(self, what: str, true: Callable[[JobStatus], bool], timeout_s: float) -> JobStatus:
        """Wait until ``true`` holds for a status. Raises DemoError if the job ends or the time is over."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            status = self.seen.status
            if status is not None and true(status):
                return status
            if not self.running:
                raise DemoError(f"the job ended while the demo waited for {what}{self.words()}")
            time.sleep(LOOK_INTERVAL_S)
        raise DemoError(f"{what}: not within {timeout_s:.0f} s{self.words()}")

    def epochs(self, more: int, timeout_s: float = 120.0) -> JobStatus:
        """Wait until ``more`` further epochs are committed and visible."""
        status = self.until("a status", lambda _: True, timeout_s)
        wanted = status.published_through + more
        return self.until(f"epoch {wanted}", lambda s: s.published_through >= wanted, timeout_s)

    def workers(self) -> tuple[WorkerStatus, ...]:
        """Return the workers as last seen."""
        status = self.seen.status
        return () if status is None else status.workers

    def rescale(self, workers: int) -> str:
        """Ask for another number of workers, wait for the result, and return the answer.

        Raises DemoError when it is refused.
        """
        answer = self._connected().rescale(workers)
        if not answer.ok:
            raise DemoError(f"rescale to {workers} workers: {answer.text}")
        return answer.text

    def stop(self, timeout_s: float) -> None:
        """Interrupt the job once, as Ctrl-C does: it takes a last checkpoint and ends.

        Raises DemoError when it does not end, or ended in another way.
        """
        self._process.send_signal(signal.SIGINT)
        code = self.wait(timeout_s)
        if code != Exit.INTERRUPTED:
            raise DemoError(f"penstock run was interrupted and ended with code {code}{self.words()}")

    def end(self) -> None:
        """End the job and all its processes if it still runs, for example after an error."""
        if self.running:
            for _ in range(2):  # the second interrupt stops at once
                self._process.send_signal(signal.SIGINT)
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(3)
        if self.running:
            self._process.kill()
        self._over.set()
        self._log.close()

    def words(self) -> str:
        """Return the end of the job's own output, for an error message."""
        text = self._files.log.read_text(errors="replace")[-LAST_LINES_CHARS:].strip()
        return f"; its last lines ({self._files.log}):\n{text}" if text else ""

    def _connected(self) -> JobClient:
        if self._client is None:
            self._client = connect(self._files.state, self._files.name)
        return self._client

    def _watch(self) -> None:
        while not self._over.is_set():
            if self.seen.first_output_s is None and any_visible(self._files.output):
                self.seen.first_output_s = time.monotonic() - self.begun
            # the job has not started yet, or it has just ended and another server has its port
            with suppress(BusyError, ConfigError, StorageError, PeerError):
                self._look()
            self._over.wait(LOOK_INTERVAL_S)

    def _look(self) -> None:
        status = self._connected().status()
        self.seen.status = status
        found = status.checkpoint
        if found is not None and (found.bytes or found.epoch not in self.seen.checkpoints):
            self.seen.checkpoints[found.epoch] = found  # its size and time become known a little later


def command(files: JobFiles, workers: int) -> list[str]:
    """Return the command line, as a user would type it."""
    settings = [part for setting in files.settings for part in ("--set", setting)]
    run = [sys.executable, "-m", "penstock.cli", "run", str(files.file), *settings]
    return [*run, "--workers", str(workers), "--dir", str(files.state)]


def any_visible(folder: Path) -> bool:
    """Say whether an output file is there."""
    try:
        return any(name.endswith(".parquet") for name in os.listdir(folder))
    except FileNotFoundError:
        return False


def kill_worker(worker: WorkerStatus) -> None:
    """Kill both processes of a worker with SIGKILL, as a lost machine would."""
    for pid in (worker.keeper_pid, worker.engine_pid):
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def is_well(status: JobStatus) -> bool:
    """Say whether the job runs with all its workers."""
    return status.state is JobState.RUNNING


def has_ended(status: JobStatus) -> bool:
    """Say whether the job is over."""
    return status.state in ENDED
