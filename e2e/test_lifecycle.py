"""A job is suspended, saved, copied, upgraded, deleted: its state is kept or removed as asked."""

from pathlib import Path
from typing import Any

import pytest

from e2e.rig.reading import SNAPSHOTS, read
from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import START_TIMEOUT_S, WordCount

STEP_TIMEOUT_S = 120.0
END_TIMEOUT_S = 180.0


def snapshot(name: str) -> Any:
    return {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "StreamSnapshot",
        "metadata": {"name": name},
        "spec": {"jobRef": "wordcount"},
    }


def is_completed(job: WordCount, name: str) -> bool:
    found = read(job.kubectl, SNAPSHOTS, name)
    return bool(found.get("status", {}).get("state") == "Completed")


def until_none_works(job: WordCount) -> None:
    wait_for("no workers", lambda: not job.workers(), STEP_TIMEOUT_S, job.say)


def kept_objects(job: WordCount) -> list[str]:
    """List the objects that are left of the job, without those that every namespace has."""
    kinds = "statefulsets,services,configmaps,secrets,leases,roles,rolebindings,serviceaccounts"
    found = job.kubectl("get", f"{kinds},poddisruptionbudgets,networkpolicies", "-o", "name")
    return sorted(name for name in found.split() if "/wordcount" in name)


def only_records(kept: list[str]) -> bool:
    """Say whether only the objects are left that a restore needs."""
    return all(name.startswith("configmap/wordcount-ckpt-") for name in kept)


def checkpoint_files(job: WordCount) -> list[Path]:
    return [path for path in job.folder.glob("*/wordcount/**/*") if path.is_file()]


@pytest.mark.timeout(600)
def test_a_job_rests_and_is_upgraded_and_loses_nothing(wordcount: WordCount) -> None:
    wordcount.start(rate=40)
    wordcount.commits(1, STEP_TIMEOUT_S)
    wordcount.patch(suspend=True)
    wordcount.until_state("Suspended", STEP_TIMEOUT_S)
    until_none_works(wordcount)
    rested = wordcount.epoch()
    wordcount.patch(suspend=False)
    wordcount.until("Ready", STEP_TIMEOUT_S)
    assert wordcount.epoch() >= rested
    assert images_of(wordcount) == {wordcount.cluster.images.worker}

    newer = wordcount.cluster.images.upgraded
    wordcount.patch(image=newer)
    wordcount.until("Ready", STEP_TIMEOUT_S)
    assert images_of(wordcount) == {newer}
    wordcount.finish(END_TIMEOUT_S, image=newer)
    wordcount.check_exact()


def images_of(job: WordCount) -> set[str]:
    return {c["image"] for pod in job.workers().values() for c in pod["spec"]["containers"]}


@pytest.mark.timeout(600)
def test_a_savepoint_outlives_its_job_and_begins_another(wordcount: WordCount) -> None:
    wordcount.start(rate=40)
    wordcount.kubectl.apply(snapshot("monday"))
    wait_for("savepoint", lambda: is_completed(wordcount, "monday"), STEP_TIMEOUT_S, wordcount.say)
    status = wordcount.kubectl.get("streamsnapshot", "monday")["status"]
    wordcount.delete(STEP_TIMEOUT_S)  # deletionPolicy Retain
    until_none_works(wordcount)
    saved = status["path"].rpartition("/")[2]
    assert any(wordcount.folder.rglob(saved)), f"{status['path']} is on the volume"
    wait_for("collection", lambda: only_records(kept_objects(wordcount)), STEP_TIMEOUT_S)
    assert "configmap/wordcount-ckpt-latest" in kept_objects(wordcount)
    assert checkpoint_files(wordcount)

    # A job of another name begins at the savepoint: together with what was published until
    # then, its output is whole.
    until_then = [
        file for file in wordcount.output.glob("*.parquet") if int(file.name.partition("-")[0]) <= status["epoch"]
    ]
    copied = wordcount.another("copied")
    copied.apply(restore={"snapshotRef": "monday", "nonce": "first"})
    copied.until_finished(START_TIMEOUT_S)
    assert copied.status()["restore"]["nonce"] == "first"
    copied.check_exact(until_then)


@pytest.mark.timeout(600)
def test_deletion_does_what_its_policy_says(wordcount: WordCount) -> None:
    wordcount.start(rate=40, deletionPolicy="Savepoint")
    wordcount.commits(1, STEP_TIMEOUT_S)
    wordcount.delete(STEP_TIMEOUT_S)
    until_none_works(wordcount)
    saved = list((wordcount.folder / wordcount.kubectl.namespace).glob("wordcount/savepoints/*"))
    assert len(saved) == 1, "one last savepoint"
    assert checkpoint_files(wordcount)
    wait_for("collection", lambda: only_records(kept_objects(wordcount)), STEP_TIMEOUT_S)

    # A job of the same name begins empty, beside what the first left. Then nothing is left of it.
    for file in wordcount.output.glob("*.parquet"):
        file.unlink()
    wordcount.start(rate=40, deletionPolicy="Purge")
    wordcount.commits(1, STEP_TIMEOUT_S)
    uid = wordcount.job()["metadata"]["uid"]
    assert list(wordcount.folder.glob(f"*/wordcount/{uid}/*"))
    wordcount.delete(STEP_TIMEOUT_S)
    until_none_works(wordcount)
    assert not list(wordcount.folder.glob(f"*/wordcount/{uid}/*"))
    assert saved[0].is_dir(), "the savepoint of the first job belongs to the user"
    archived = {name for name in kept_objects(wordcount) if "-ckpt-archive-" in name}
    wait_for("collection", lambda: set(kept_objects(wordcount)) == archived, STEP_TIMEOUT_S)
