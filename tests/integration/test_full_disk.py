"""A full disk during a checkpoint: the epoch is aborted, and the job continues and reports it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.contract.status import JobState
from penstock.supervisor import JobClient, connect
from tests.integration.local_job import (
    Folders,
    check_exact,
    epoch_of,
    make_lines,
    penstock_run,
    wait_for_output,
    wait_until,
)

RATE = 150
DISK = "16m"


def small_disk(folder: Path) -> list[str]:
    """Give the command that runs another one with a small disk of its own at ``folder``."""
    script = f'mount -t tmpfs -o size={DISK} none "$0" && exec "$@"'
    return ["unshare", "--mount", "--map-root-user", "sh", "-c", script, str(folder)]


def needs_own_disk(folder: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("no unshare: a process cannot have a disk of its own here")
    tried = subprocess.run([*small_disk(folder), "true"], capture_output=True, check=False)
    if tried.returncode != 0:
        pytest.skip("not allowed to mount: a process cannot have a disk of its own here")


def fill(file: int) -> None:
    while True:
        os.write(file, b"x" * 4096)


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Leave no byte free on ``disk`` for a while."""
    filler = disk / "filler"
    file = os.open(filler, os.O_WRONLY | os.O_CREAT)
    with pytest.raises(OSError, match="No space left on device"):
        fill(file)
    os.close(file)
    yield
    filler.unlink()


def committed(client: JobClient) -> int:
    return epoch_of(client.status())


def test_a_full_disk_aborts_the_epoch_and_nothing_else(tmp_path: Path) -> None:
    folders: Folders = make_lines(tmp_path, files=2, lines=15_000)
    checkpoints = folders.state / "wordcount" / "checkpoints"
    folders.state.mkdir(exist_ok=True)
    checkpoints.parent.mkdir(mode=0o700)  # a job's folder that others may enter is refused
    checkpoints.mkdir()
    needs_own_disk(checkpoints)
    with penstock_run(folders, rate=RATE, within=small_disk(checkpoints)) as command:
        wait_for_output(folders)
        client = connect(folders.state, "wordcount")
        disk = Path(f"/proc/{command.pid}/root{checkpoints}")
        assert os.path.ismount(disk)
        with filled(disk):
            wait_until(lambda: "No space left on device" in (client.status().failure or ""))
            wait_until(lambda: client.status().state is JobState.RUNNING)
            before = client.status()
            rows = sum(step.rows_in for step in before.steps)
            wait_until(lambda: sum(step.rows_in for step in client.status().steps) > rows)
        epoch = committed(client)
        wait_until(lambda: committed(client) > epoch + 1)
        wait_until(lambda: client.status().failure is None)
        after = client.status()
        assert after.state is JobState.RUNNING
        assert after.attempt == before.attempt == 1, "an epoch that fails is no rollback"
        assert client.stop().ok is True
        client.close()
        assert command.wait(60) == 0
    assert check_exact(folders, complete=False) > 0
