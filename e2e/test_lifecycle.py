"""A job that rests, is saved, and goes: state is kept or removed as the spec says."""

from typing import Any

from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import WordCount

STEP_TIMEOUT_S = 120.0
END_TIMEOUT_S = 180.0


def snapshot(name: str) -> Any:
    return {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "StreamSnapshot",
        "metadata": {"name": name},
        "spec": {"jobRef": "wordcount"},
    }


def patch(job: WordCount, text: str) -> None:
    job.kubectl("patch", "streamjob", "wordcount", "--type=merge", "-p", text)


def test_a_suspended_job_runs_nothing_and_goes_on_where_it_was(wordcount: WordCount) -> None:
    wordcount.start(rate=100)
    wordcount.commits(1, STEP_TIMEOUT_S)
    patch(wordcount, '{"spec": {"suspend": true}}')
    wait_for("Suspended", lambda: wordcount.state() == "Suspended", STEP_TIMEOUT_S)
    wait_for("no workers", lambda: not wordcount.workers(), STEP_TIMEOUT_S)
    patch(wordcount, '{"spec": {"suspend": false}}')
    wordcount.until("Ready", STEP_TIMEOUT_S)
    wordcount.finish(END_TIMEOUT_S)
    wordcount.check_exact()


def test_a_savepoint_is_taken_and_outlives_its_job(wordcount: WordCount) -> None:
    wordcount.start(rate=100)
    wordcount.kubectl.apply(snapshot("monday"))
    wait_for(
        "a completed savepoint",
        lambda: (
            wordcount.kubectl.get("streamsnapshot", "monday").get("status", {}).get("state")
            == "Completed"
        ),
        STEP_TIMEOUT_S,
    )
    wordcount.kubectl("delete", "streamjob", "wordcount", f"--timeout={STEP_TIMEOUT_S:g}s")
    wait_for("no workers", lambda: not wordcount.workers(), STEP_TIMEOUT_S)
    saved = wordcount.kubectl.get("streamsnapshot", "monday")["status"]["path"]
    assert any(wordcount.folder.rglob(saved.rsplit("/", 1)[-1])), f"{saved} is on the volume"
    kept = [each["metadata"]["name"] for each in wordcount.kubectl.items("configmaps")]
    assert "wordcount-ckpt-latest" in kept


def test_purge_leaves_nothing(wordcount: WordCount) -> None:
    wordcount.start(rate=100, deletionPolicy="Purge")
    wordcount.commits(1, STEP_TIMEOUT_S)
    assert any(wordcount.folder.rglob("*wordcount*"))
    wordcount.kubectl("delete", "streamjob", "wordcount", f"--timeout={STEP_TIMEOUT_S:g}s")
    gone = [each["metadata"]["name"] for each in wordcount.kubectl.items("configmaps")]
    assert [name for name in gone if name.startswith("wordcount")] == []
    checkpoints = [path for path in wordcount.folder.rglob("*") if "wordcount/" in str(path)]
    assert [path for path in checkpoints if path.is_file()] == []
