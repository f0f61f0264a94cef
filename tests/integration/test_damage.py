"""Checkpoint files altered or missing: found, said, never skipped silently."""

import uuid
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from penstock.base.values import replace
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


def flipped(content: bytes) -> bytes:
    data = bytearray(content)
    data[len(data) // 2] ^= 1
    return bytes(data)


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
    return replace(cluster_settings(folders, rate=0, workers=1), restore=wanted)


def failure_of_a_run(settings: ClusterSettings) -> str:
    with started(settings) as cluster:
        return failure_of(cluster)


def test_harmed_state_is_found_and_older_state_taken_on_request_only(tmp_path: Path) -> None:
    folders = make_lines(tmp_path, files=2, lines=LINES)
    newest = stopped_job(folders)
    committed = check_exact(folders, complete=False)
    root = decode(RootManifest, newest.read_bytes())
    files = [file for task in root.tasks for file in task.files if file.epoch == root.epoch]
    victim = newest.parent / files[0].blob.name
    content = victim.read_bytes()
    go_on = cluster_settings(folders, rate=0, workers=1)

    victim.unlink()
    failure = failure_of_a_run(go_on)
    assert victim.name in failure
    assert "is missing" in failure

    victim.write_bytes(flipped(content))
    failure = failure_of_a_run(go_on)
    assert victim.name in failure
    assert "was altered" in failure
    victim.write_bytes(content)
    whole = newest.read_bytes()
    newest.write_bytes(flipped(whole))
    failure = failure_of_a_run(go_on)
    assert newest.name in failure
    assert "was altered" in failure
    newest.write_bytes(whole)
    victim.write_bytes(flipped(content))
    assert check_exact(folders, complete=False) == committed, "nothing was skipped"

    assert "--allow-output-replay" in failure_of_a_run(restored(folders, root.epoch - 1, replay=False))
    with started(restored(folders, root.epoch - 1, replay=True)) as cluster:
        finish(cluster)
    seen = words_of(folders.output)
    assert seen.keys() == expected(folders).keys()
    assert all(seen[word] >= count for word, count in expected(folders).items()), "none is lost"
