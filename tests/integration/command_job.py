"""A job that the command runs in a folder, and what a test does to it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.contract.status import JobState, JobStatus
from penstock.supervisor import JobClient, connect
from tests.integration.local_job import epoch_of, wait_until

WITHIN_S = 200.0


class RunningJob:
    """The job ``name`` of the file job.yaml in a folder."""

    def __init__(self, root: Path, name: str, options: Sequence[str] = ()) -> None:
        self.root = root
        self._name = name
        self._log = root / "log"
        self._client: JobClient | None = None
        with self._log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "penstock.cli", "run", "job.yaml", *options], cwd=root, stdout=out, stderr=out
            )

    def command(self, *words: str) -> bytes:
        """Run a command beside the job, and return what it writes."""
        given = [sys.executable, "-m", "penstock.cli", *words]
        done = subprocess.run(given, cwd=self.root, capture_output=True, timeout=WITHIN_S, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def status(self) -> JobStatus:
        """Ask the supervisor, which the job has from its first output on."""
        if self._client is None:
            self._client = connect(self.root / ".penstock", self._name)
        return self._client.status()

    def until(self, reached: Callable[[], bool]) -> None:
        """Wait for something, while the job runs."""

        def look() -> bool:
            assert self.process.poll() is None, self._log.read_text()
            return reached()

        wait_until(look, WITHIN_S, self._log.read_text)

    def rescale(self, workers: int) -> None:
        """Change the number of workers, and wait until the job runs with it."""
        self.command("rescale", self._name, str(workers))
        self.until(lambda: self._runs(workers))

    def kill(self, worker: int) -> None:
        """Kill the engine of a worker, while the job runs."""
        self._kill(lambda now: now.workers[worker].engine_pid if now.state is JobState.RUNNING else None)

    def kill_leader(self) -> None:
        """Kill the keeper that leads."""
        self._kill(lambda now: next((worker.keeper_pid for worker in now.workers if worker.leader), None))

    def _kill(self, choose: Callable[[JobStatus], int | None]) -> None:
        """Kill the process that a status names. One that died since then, by an earlier kill, is no victim."""

        def killed() -> bool:
            victim = choose(self.status())
            if victim is None:
                return False
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                return False
            return True

        self.until(killed)

    def commit(self, more: int = 2) -> None:
        """Wait for more checkpoints. Two of them are committed only by a job that has recovered."""
        goal = epoch_of(self.status()) + more
        self.until(lambda: epoch_of(self.status()) >= goal)

    def failed(self) -> str:
        """Wait until the job has ended with an error, and return what it wrote."""
        assert self.process.wait(WITHIN_S) == 1, self._log.read_text()
        return self._log.read_text()

    def stop(self) -> None:
        """End the job in good order."""
        self.command("stop", self._name)
        assert self.process.wait(WITHIN_S) == 0, self._log.read_text()

    def finish_at_full_rate(self, job: str) -> None:
        """Stop a job that was slowed down for a test, and run ``job`` in its place to the end of its input."""
        self.stop()
        (self.root / "job.yaml").write_text(job)
        self.command("run", "job.yaml")

    def end(self) -> None:
        """Leave no process behind."""
        if self._client is not None:
            self._client.close()
        self.process.kill()
        self.process.wait()

    def _runs(self, workers: int) -> bool:
        now = self.status()
        return now.state is JobState.RUNNING and len(now.workers) == workers


@contextmanager
def running(root: Path, name: str, job: str, *options: str) -> Iterator[RunningJob]:
    """Run a job with options of the command, and leave no process behind."""
    (root / "job.yaml").write_text(job)
    found = RunningJob(root, name, options)
    try:
        yield found
    finally:
        found.end()
