"""The states from which a run refuses to begin, and the messages that the user reads."""

import shutil
from pathlib import Path

import pytest

from tests.integration.local_job import (
    Folders,
    check_exact,
    make_lines,
    penstock_run,
    wait_for_output,
)
from tests.integration.test_command_line import penstock, run_again

ONE = ("--workers", "1")  # starts sooner than two, and any number goes on from a checkpoint


@pytest.fixture(scope="module")
def halfway(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """Run a job, save it, and stop it before its end; tests begin from copies."""
    folders = make_lines(tmp_path_factory.mktemp("halfway"), files=2, lines=6_000)
    where = ("--dir", str(folders.state))
    with penstock_run(folders, rate=60) as process:
        wait_for_output(folders)
        saved = penstock("savepoint", "wordcount", "early", *where)
        assert saved.returncode == 0, saved.stderr
        taken = penstock("checkpoint", "wordcount", *where)
        assert taken.returncode == 0, taken.stderr
        stopped = penstock("stop", "wordcount", *where)
        assert stopped.returncode == 0, stopped.stderr
        assert process.wait(60) == 0
    return folders


def copied(folders: Folders, root: Path) -> Folders:
    """Copy output and state; the input is only read."""
    copy = Folders(folders.input, root / "output", root / "state")
    shutil.copytree(folders.output, copy.output)
    shutil.copytree(folders.state, copy.state)
    return copy


def test_what_does_not_fit_or_would_repeat_output_is_refused(halfway: Folders, tmp_path: Path) -> None:
    folders = copied(halfway, tmp_path)
    visible = sorted(folders.output.iterdir())

    done = run_again(folders, *ONE, "--set", "maxKeyGroups=128")
    assert done.returncode == 1
    assert "maxKeyGroups never changes in the life of a job" in " ".join(done.stderr.split())

    early = folders.state / "wordcount" / "savepoints" / "early"
    done = run_again(folders, *ONE, "--restore", str(early))
    assert done.returncode == 1
    assert "--allow-output-replay" in done.stderr

    assert sorted(folders.output.iterdir()) == visible
    done = run_again(folders, *ONE)
    assert done.returncode == 0, done.stderr
    check_exact(folders)


def test_a_job_whose_metadata_is_lost_does_not_start_from_nothing(halfway: Folders, tmp_path: Path) -> None:
    folders = copied(halfway, tmp_path)
    visible = sorted(folders.output.iterdir())
    kept = sorted((folders.state / "wordcount" / "checkpoints").rglob("*.state"))
    lost = list((folders.state / "wordcount").glob("*.sqlite*"))
    assert lost, "the metadata store"
    for file in lost:
        file.unlink()
    done = run_again(folders, *ONE)
    assert done.returncode == 1
    assert "MetadataMissing" in done.stderr
    assert sorted(folders.output.iterdir()) == visible
    assert sorted((folders.state / "wordcount" / "checkpoints").rglob("*.state")) == kept


def test_a_changed_job_begins_without_state_when_it_is_told_to(halfway: Folders, tmp_path: Path) -> None:
    folders = copied(halfway, tmp_path)
    visible = {file.name: file.read_bytes() for file in folders.output.glob("*.parquet")}
    changed = (*ONE, "--set", "maxKeyGroups=128", "--restore", "empty")

    done = run_again(folders, *changed)
    assert done.returncode == 1
    assert "to begin without state reads all input" in " ".join(done.stderr.split())
    assert {file.name for file in folders.output.glob("*.parquet")} == set(visible)

    done = run_again(folders, *changed, "--allow-output-replay")
    assert done.returncode == 0, done.stderr
    again = Folders(folders.input, tmp_path / "again", folders.state)
    again.output.mkdir()
    for file in sorted(folders.output.glob("*.parquet")):
        if file.name not in visible:
            file.rename(again.output / file.name)
    check_exact(again)
    assert {f.name: f.read_bytes() for f in folders.output.glob("*.parquet")} == visible
