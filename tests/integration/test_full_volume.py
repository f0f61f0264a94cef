"""A volume without room for another checkpoint: whoever asks for the status is told at once."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.base.values import replace
from penstock.contract.control_messages import NO_ROOM
from tests.integration.local_job import (
    after_more,
    check_exact,
    cluster_settings,
    epoch_of,
    finish,
    make_lines,
    sound,
    started,
    until,
)

WITHIN_S = 15.0
SIZE_MB = 16


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """Give a volume of its own; skips where this process may mount none."""
    folder = tmp_path / "volume"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no volume can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all the room that is left."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        while True:
            try:
                file.write(os.urandom(1 << 16))
            except OSError:
                return filler


@pytest.mark.parametrize("what", ["output", "state/wordcount/checkpoints"])
def test_a_job_that_begins_on_a_full_volume_waits_for_room(tmp_path: Path, volume: Path, what: str) -> None:
    folders = make_lines(tmp_path, files=2, lines=500)
    settings = replace(cluster_settings(folders, rate=0), workers=2)
    (tmp_path / what).symlink_to(volume)
    filler = fill(volume)
    with started(settings) as cluster:
        until(cluster, lambda s: any(words in (s.failure or "") for words in NO_ROOM))
        filler.unlink()
        finish(cluster)
    assert check_exact(folders) == 2 * 500 * 8


@pytest.mark.parametrize("what", ["state", "output"])
def test_a_full_volume_is_told_and_the_job_goes_on_once_there_is_room(tmp_path: Path, volume: Path, what: str) -> None:
    folders = make_lines(tmp_path, files=2, lines=20_000)
    (tmp_path / what).symlink_to(volume)
    settings = replace(cluster_settings(folders, rate=400), workers=1)
    with started(settings) as cluster:
        before = epoch_of(after_more(cluster))
        filler = fill(volume)
        begun = time.monotonic()

        def is_told() -> bool:
            said = cluster.status().failure or ""
            return any(words in said for words in NO_ROOM)

        until(cluster, lambda _: is_told())
        assert time.monotonic() - begun < WITHIN_S
        filler.unlink()
        until(cluster, lambda s: epoch_of(s) > before + 1 and sound(s) and s.failure is None)
