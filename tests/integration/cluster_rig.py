"""``penstock run`` on a small input, from outside: tests send signals to its processes and check its output.

The input is paced, so that a job lasts as long as a test has things to do to it.
"""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.base.values import replace
from penstock.contract.pod import latest_name
from penstock.contract.status import JobStatus, WorkerStatus
from penstock.supervisor.folders import JobFolder
from penstock_spark.demo.job import JobFiles, RunningJob, is_well
from sim.checks.call_recorder import numbers_that_go_back
from tests.support.latest_observer import LatestObserver

ROOT = Path(__file__).resolve().parents[2]
FILES = 6
WORDS = 5_000
WORKERS_FIRST = 2
TIMEOUT_S = 120.0


def line(number: int) -> str:
    """Make a line: a hot word, some of many words, and empty ones."""
    return f"hot w{number * 7919 % WORDS} w{number % 97}  w{number * 31 % WORDS}" + " " * (number % 3)


def words_of(text: str) -> list[str]:
    """Split as the job does."""
    words = text.split(" ")
    return words[:-1] if words[-1] == "" else words


class Cluster:
    """One job with its folders."""

    def __init__(
        self,
        folder: Path,
        *,
        seconds: int,
        rate: int = 60,
        workers: int = WORKERS_FIRST,
        before_start: Callable[[Path], None] | None = None,
    ) -> None:
        """Start the job on an input that lasts about ``seconds`` at ``rate`` lines/s a file.

        ``before_start`` may do something to the input folder first.
        """
        self.lines = seconds * rate
        self.input = folder / "lines"
        self.output = folder / "out"
        self._write_input()
        if before_start is not None:
            before_start(self.input)
        self.files = JobFiles(
            "wordcount",
            ROOT / "examples" / "wordcount.yaml",
            [
                f"job.parameters.input={self.input}",
                f"job.parameters.output={self.output}",
                f"job.parameters.rate={rate}",
                "checkpoint.interval=500ms",
            ],
            self.output,
            folder / "state",
            folder / "run.log",
        )
        self.job = RunningJob(self.files, workers)
        database = JobFolder((self.files.state / "wordcount").absolute(), "wordcount", "").database
        self.observer = LatestObserver(database, latest_name("wordcount"))

    def well(self) -> JobStatus:
        """Wait until all workers run and one leads."""
        return self.job.until("all workers and a leader", _complete, TIMEOUT_S)

    def victim(self, *, leader: bool) -> WorkerStatus:
        """Return a worker, the leader or another one, of a job that is well."""
        return next(w for w in self.well().workers if w.leader == leader)

    def recovered(self, before: JobStatus) -> JobStatus:
        """Wait for a newer attempt that runs, and for output of it."""
        after = self.job.until("recovery", lambda s: s.attempt > before.attempt and _complete(s), TIMEOUT_S)
        self.job.epochs(1, TIMEOUT_S)
        return after

    def rescale(self, workers: int) -> None:
        """Change the number of workers. Wait until all of them run, and for output of the next epoch."""
        self.job.rescale(workers)
        self.job.until(f"{workers} workers", lambda s: len(s.workers) == workers, TIMEOUT_S)
        self.job.epochs(1)

    def finish(self) -> None:
        """Stop the paced job, run it again at full speed, and wait for its end.

        So the input can be long enough for a slow machine, and a test still ends soon. One worker
        starts sooner than two.
        """
        self.job.stop(TIMEOUT_S)
        self.job.end()
        unpaced = [s for s in self.files.settings if ".rate=" not in s]
        self.job = RunningJob(replace(self.files, settings=unpaced), 1)
        assert self.job.wait(2 * TIMEOUT_S) == 0, self.job.words()

    def check_exact(self) -> None:
        """Compare the output with the input: every word 1..n, in order, and nothing else.

        No number of ``-latest`` may ever have gone back.
        """
        history = self.observer.end()
        assert history[-1].finished
        assert not numbers_that_go_back(history)
        found: Counter[str] = Counter()
        for file in sorted(self.output.glob("*.parquet")):
            table = pq.read_table(file, columns=["word", "count"])
            for word, count in zip(*(c.to_pylist() for c in table.columns), strict=True):
                found[word] += 1
                assert count == found[word], f"{file.name}: {word!r} has {count}, not {found[word]}"
        assert found == self.expected()

    def expected(self) -> Counter[str]:
        """Count the words of the input."""
        return Counter(w for n in range(FILES * self.lines) for w in words_of(line(n)))

    def _write_input(self) -> None:
        self.input.mkdir()
        for file in range(FILES):
            numbers = range(file * self.lines, (file + 1) * self.lines)
            table = pa.table({"line": [line(n) for n in numbers]})
            pq.write_table(table, self.input / f"part-{file}.parquet", row_group_size=1000)


@contextmanager
def running(folder: Path, *, seconds: int) -> Iterator[Cluster]:
    """Run a job; whatever happens, none of its processes is left."""
    cluster = Cluster(folder, seconds=seconds)
    try:
        yield cluster
    finally:
        cluster.observer.end()
        cluster.job.end()


def send(number: signal.Signals, *pids: int | None) -> None:
    """Send a signal to processes of the job."""
    for pid in pids:
        assert pid is not None, "the process is known"
        os.kill(pid, number)


def _complete(status: JobStatus) -> bool:
    known = all(w.keeper_pid and w.engine_pid for w in status.workers)
    return is_well(status) and known and any(w.leader for w in status.workers)
