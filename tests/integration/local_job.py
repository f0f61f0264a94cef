"""A real word count on a real local cluster, which tests disturb."""

import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.contract.settings import CheckpointSettings
from penstock.contract.status import JobState, JobStatus
from penstock.graph import keep_job_file, read_job_file
from penstock.protocol.core_context import ControlSettings
from penstock.supervisor import ClusterSettings, LocalCluster
from tests.support.forks import shared_fork_server

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLE = REPOSITORY / "examples" / "wordcount.yaml"
WITHIN_S = 120.0
LOOK_EVERY_S, LOOK_PAUSE_MAX_S = 0.02, 0.5
LOOK_PAUSE = 4  # times as long as the look itself
QUICK = ControlSettings(
    resend_interval_s=0.1,
    lease_duration_s=3.0,
    lease_renew_deadline_s=2.0,
    lease_retry_s=0.3,
)
CHECKPOINTS = CheckpointSettings(interval_s=0.3)


@dataclass(frozen=True, slots=True)
class Folders:
    """Where one test's input, output and state are."""

    input: Path
    output: Path
    state: Path


def make_lines(root: Path, *, files: int, lines: int) -> Folders:
    """Write Parquet files of text that is the same in every run."""
    folders = Folders(root / "input", root / "output", root / "state")
    folders.input.mkdir(parents=True)
    draw = random.Random(7)
    words = [f"word-{number}" for number in range(500)]
    for file in range(files):
        text = [" ".join(draw.choices(words, k=8)) for _ in range(lines)]
        pq.write_table(pa.table({"line": text}), folders.input / f"part-{file}.parquet")
    return folders


def settings_of(folders: Folders, *, rate: int) -> list[str]:
    """Spell what ``--set`` takes for these folders; ``rate`` is rows per second and file."""
    parameters = {"input": folders.input, "output": folders.output, "rate": rate}
    return [f"job.parameters.{name}={value}" for name, value in parameters.items()]


def cluster_settings(
    folders: Folders,
    *,
    rate: int,
    workers: int = 2,
    control: ControlSettings = QUICK,
    more: Sequence[str] = (),
) -> ClusterSettings:
    """Resolve the example for these folders; ``more`` is what ``--set`` takes beside them."""
    job = read_job_file(EXAMPLE, [*settings_of(folders, rate=rate), *more])
    kept = folders.state / "wordcount" / "job.json"
    keep_job_file(job, kept)
    return ClusterSettings(
        job="wordcount",
        job_file=kept,
        directory=folders.state,
        workers=workers,
        checkpoint=CHECKPOINTS,
        control=control,
    )


@contextmanager
def started(settings: ClusterSettings) -> Iterator[LocalCluster]:
    """Run a cluster, and leave no process behind whatever happens."""
    cluster = LocalCluster(settings, shared_fork_server())
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.kill()


def until(cluster: LocalCluster, wanted: Callable[[JobStatus], bool], within_s: float = WITHIN_S) -> JobStatus:
    """Look until the status is as wanted. Fails with the last one when it never is."""
    found: list[JobStatus] = []

    def look() -> bool:
        found[:] = [cluster.status()]
        assert found[0].state is not JobState.FAILED, found[0].failure
        return wanted(found[0])

    wait_until(look, within_s, lambda: str(found))
    return found[0]


def wait_until(reached: Callable[[], bool], within_s: float = WITHIN_S, shown: Callable[[], str] = str) -> None:
    """Look at another process again and again; there is no event to wait for.

    A look that takes long is made less often: it would take a core from what it waits for.
    """
    pause, end = threading.Event(), time.monotonic() + within_s
    while True:
        began = time.monotonic()
        if reached():
            return
        now = time.monotonic()
        assert now < end, f"not within {within_s} s: {shown()}"
        pause.wait(min(max(LOOK_EVERY_S, LOOK_PAUSE * (now - began)), LOOK_PAUSE_MAX_S))


def wait_for_output(folders: Folders) -> None:
    """Wait for the first committed rows."""
    wait_until(lambda: any(folders.output.glob("*.parquet")))


@contextmanager
def penstock_run(
    folders: Folders, *more: str, rate: int, within: Sequence[str] = ()
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the command in its own process, which is killed if it still runs at the end.

    ``within`` is a command that runs another one, its process becoming that; ``more`` is given to
    the command itself.
    """
    settings = [part for text in settings_of(folders, rate=rate) for part in ("--set", text)]
    command = [sys.executable, "-m", "penstock.cli", "run", str(EXAMPLE), "--workers", "2"]
    folders.state.mkdir(exist_ok=True)
    with (folders.state / "command.log").open("ab") as log:
        process = subprocess.Popen(
            [*within, *command, *settings, "--dir", str(folders.state), *more],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def epoch_of(status: JobStatus) -> int:
    """Return the newest committed epoch, 0 before the first."""
    return 0 if status.checkpoint is None else status.checkpoint.epoch


def sound(status: JobStatus) -> bool:
    """Say whether everything runs and something is committed."""
    return status.state is JobState.RUNNING and epoch_of(status) > 0


def after_more(cluster: LocalCluster, epochs: int = 2) -> JobStatus:
    """Wait until the job runs and has committed ``epochs`` more than now."""
    goal = epoch_of(until(cluster, sound)) + epochs
    return until(cluster, lambda s: sound(s) and epoch_of(s) >= goal)


def finish_quickly(cluster: LocalCluster, folders: Folders) -> JobStatus:
    """Stop a run that was slowed down for a test, and go on at full rate to the end.

    One worker starts sooner than two. Returns the last status of the slow run.
    """
    cluster.stop()
    stopped = cluster.wait(WITHIN_S)
    assert stopped is not None, cluster.status()
    assert stopped.state is JobState.STOPPED, stopped
    with started(cluster_settings(folders, rate=0, workers=1)) as again:
        finish(again)
    return stopped


def finish(cluster: LocalCluster, within_s: float = 120.0) -> JobStatus:
    """Wait for the end of the input."""
    status = cluster.wait(within_s)
    assert status is not None, f"not finished within {within_s} s: {cluster.status()}"
    assert status.state is JobState.FINISHED, status
    return status


def expected(folders: Folders) -> Counter[str]:
    """Count the words of the input in plain Python."""
    counts: Counter[str] = Counter()
    for file in folders.input.glob("*.parquet"):
        for line in pq.read_table(file)["line"].to_pylist():
            counts.update(line.split(" "))
    return counts


def check_exact(folders: Folders, *, complete: bool = True) -> int:
    """Check that the counts of every word rise by one, and (if complete) reach the oracle's.

    Returns the number of rows.
    """
    seen: Counter[str] = Counter()
    for file in sorted(folders.output.glob("*.parquet")):
        table = pq.read_table(file)
        for word, count in zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True):
            seen[word] += 1
            assert count == seen[word], f"{file.name}: {word} is {count}, not {seen[word]}"
    if complete:
        assert seen == expected(folders)
    return seen.total()


def processes_of(folder: Path) -> list[int]:
    """List the processes whose command line or standard output names something in ``folder``."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="replace")
            command += "\n" + str((entry / "fd" / "1").readlink())
        except OSError:
            continue
        if re.search(re.escape(str(folder)) + r"\b", command):
            found.append(int(entry.name))
    return found


def log_of(folders: Folders, worker: int) -> str:
    """Return what one worker has logged."""
    return (folders.state / "wordcount" / "workers" / str(worker) / "log").read_text()
