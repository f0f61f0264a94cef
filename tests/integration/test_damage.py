"""Checkpoint files altered or missing, a disk that is full: found, said, nothing skipped."""

import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.contract.codec import decode
from penstock.contract.ids import Epoch
from penstock.contract.latest import Restore
from penstock.contract.manifest import RootManifest
from penstock.contract.status import JobState
from penstock.supervisor import ClusterSettings, LocalCluster
from tests.integration.local_job import (
    Folders,
    after_more,
    check_exact,
    cluster_settings,
    expected,
    finish,
    make_lines,
    started,
)

RATE = 150
LINES = 3000


def flip_a_byte(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))


def stopped_job(folders: Folders) -> Path:
    """Run a job for some epochs. Returns the file of its newest checkpoint."""
    with started(cluster_settings(folders, rate=RATE)) as cluster:
        after_more(cluster, epochs=3)
        cluster.stop()
        status = cluster.wait(60)
    assert status is not None
    assert status.checkpoint is not None
    return Path(status.checkpoint.path)


def words_of(output: Path) -> Counter[str]:
    files = output.glob("*.parquet")
    return Counter(word for file in files for word in pq.read_table(file)["word"].to_pylist())


def failure_of(cluster: LocalCluster) -> str:
    status = cluster.wait(60)
    assert status is not None, cluster.status()
    assert status.state is JobState.FAILED
    assert status.failure is not None
    return status.failure


def restored(folders: Folders, epoch: int, *, replay: bool) -> ClusterSettings:
    wanted = Restore(str(uuid.uuid4()), epoch=Epoch(epoch), allow_output_replay=replay)
    return replace(cluster_settings(folders, rate=0), restore=wanted)


@pytest.mark.parametrize(
    ("harm", "words"), [(flip_a_byte, "was altered"), (Path.unlink, "is missing")]
)
def test_a_harmed_state_file_is_found_and_never_skipped(
    tmp_path: Path, harm: Callable[[Path], None], words: str
) -> None:
    folders = make_lines(tmp_path, files=2, lines=LINES)
    newest = stopped_job(folders)
    root = decode(RootManifest, newest.read_bytes())
    victim = next(file.blob.name for task in root.tasks for file in task.files)
    harm(newest.parent / victim)
    before = check_exact(folders, complete=False)
    with started(cluster_settings(folders, rate=0)) as cluster:
        failure = failure_of(cluster)
    assert victim in failure
    assert words in failure
    assert check_exact(folders, complete=False) == before


def test_an_older_epoch_is_taken_on_request_only_and_said(tmp_path: Path) -> None:
    folders = make_lines(tmp_path, files=2, lines=LINES)
    newest = stopped_job(folders)
    root = decode(RootManifest, newest.read_bytes())
    epoch = root.epoch
    files = [file for task in root.tasks for file in task.files if file.epoch == epoch]
    flip_a_byte(newest.parent / files[0].blob.name)
    with started(cluster_settings(folders, rate=0)) as cluster:
        assert files[0].blob.name in failure_of(cluster)
    with started(restored(folders, epoch - 1, replay=False)) as cluster:
        assert "allowOutputReplay" in failure_of(cluster)
    with started(restored(folders, epoch - 1, replay=True)) as cluster:
        finish(cluster)
    seen = words_of(folders.output)
    assert seen.keys() == expected(folders).keys()
    assert all(seen[word] >= count for word, count in expected(folders).items())
