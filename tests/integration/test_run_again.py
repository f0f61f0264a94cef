"""Running a job again after it has finished, was stopped or failed, and with --fresh."""

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.supervisor import connect
from tests.integration.local_job import WITHIN_S, wait_until
from tests.integration.test_new_files import penstock, put, running
from tests.support.long_tests import long_only

JOB = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: live}
spec:
  replicas: 1
  checkpoint: {interval: 500ms}
  job:
    graph:
      steps:
        - name: rows
          source:
            parquet: {path: in, rate: RATE}
            columns: [{name: "n", type: int64}]
        - name: doubled
          map: {function: "numbers_of:double", columns: [{name: "n", type: int64}]}
        - name: output
          sink: {parquet: {path: out}}
"""
CODE = """\
import pyarrow as pa
import pyarrow.compute as pc
from factors import TWO

def double(batch):
    return pa.RecordBatch.from_arrays([pc.multiply(batch.column("n"), TWO)], ["n"])
"""
FINISHED = "all its input was read and all its output is published, so nothing runs"
ROWS = 3000


def prepare(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    put(folder / "in", "first.parquet", ROWS)
    (folder / "numbers_of.py").write_text(CODE)
    (folder / "factors.py").write_text("TWO = 2\n")
    at_rate(folder, 0)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a job that has not run yet."""
    return prepare(tmp_path)


@dataclass(frozen=True)
class Kept:
    """A job as it once was. It knows its folder by its path, so it is brought back to the same place."""

    folder: Path
    copy: Path

    @classmethod
    def of(cls, folder: Path) -> "Kept":
        copy = folder.with_name(f"{folder.name}-copy")
        shutil.copytree(folder, copy)
        return cls(folder, copy)

    def back(self) -> Path:
        shutil.rmtree(self.folder)
        return Path(shutil.copytree(self.copy, self.folder))


@pytest.fixture(scope="module")
def finished_once(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    folder = prepare(tmp_path_factory.mktemp("finished") / "job")
    at_rate(folder, 2 * ROWS)  # so that the newest checkpoint has rows, too
    finish(folder)
    at_rate(folder, 0)  # it changes no result
    return Kept.of(folder)


@pytest.fixture
def finished(finished_once: Kept) -> Path:
    """Give a job that has finished."""
    return finished_once.back()


@pytest.fixture(scope="module")
def stopped_once(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    folder = prepare(tmp_path_factory.mktemp("stopped") / "job")
    at_rate(folder, 400)
    with running(folder) as process:
        wait_until(lambda: len(list((folder / "out").glob("*.parquet"))) > 2)
        assert penstock(folder, "stop", "live").returncode == 0
        assert process.wait(WITHIN_S) == 0
    at_rate(folder, 0)
    return Kept.of(folder)


@pytest.fixture
def stopped(stopped_once: Kept) -> Path:
    """Give a job that was stopped half-way, with the output of two epochs, each in files of its own."""
    return stopped_once.back()


def at_rate(folder: Path, rate: int) -> None:
    (folder / "job.yaml").write_text(JOB.replace("RATE", str(rate)))


def run(folder: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    return penstock(folder, "run", "job.yaml", *more)


def output(folder: Path) -> list[int]:
    files = sorted((folder / "out").glob("*-output-*.parquet"))
    return [n for file in files for n in pq.read_table(file)["n"].to_pylist()]


def finish(folder: Path) -> None:
    done = run(folder)
    assert done.returncode == 0, done.stderr
    assert output(folder) == [2 * n for n in range(ROWS)]


def test_a_finished_job_says_since_when_and_why_nothing_runs(finished: Path) -> None:
    folder = finished
    at_rate(folder, 500)  # a different rate changes no result
    again = run(folder)
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("live: Finished on 20"), again.stdout
    assert FINISHED in again.stdout
    for line in run(folder, "--json").stdout.splitlines():
        assert json.loads(line).get("state", "Finished") == "Finished"


def change_code(folder: Path) -> None:
    (folder / "factors.py").write_text("TWO = 3 - 1\n")  # of a module that the function imports


def change_step(folder: Path) -> None:
    file = folder / "job.yaml"
    file.write_text(file.read_text().replace("name: doubled", "name: twice"))


def remove_file(folder: Path) -> None:
    next((folder / "out").glob("*.parquet")).unlink()


def rewrite_input(folder: Path) -> None:
    pq.write_table(pa.table({"n": list(range(1, ROWS + 1))}), folder / "in" / "first.parquet")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (change_code, "the code changed: FOLDER/factors.py"),
        (change_step, "steps changed: "),
        (
            lambda f: put(f / "in", "late.parquet", 5),
            "1 file is not in the checkpoint and not read",
        ),
        (rewrite_input, "1 of 1 files changed: first.parquet (another)"),
        (lambda f: shutil.rmtree(f / "in"), "in is gone"),
        (remove_file, " files are gone from FOLDER/out"),
        (lambda f: shutil.rmtree(f / "out"), "out is gone, or is not this job's any more"),
    ],
)
def test_a_finished_job_whose_result_would_differ_ends_with_the_remedy(
    finished: Path, change: Callable[[Path], object], said: str
) -> None:
    folder = finished
    change(folder)
    again = run(folder)
    assert again.returncode == 1, again.stdout
    assert said.replace("FOLDER", str(folder)) in again.stderr, again.stderr
    assert FINISHED in again.stderr
    assert "penstock run --fresh" in again.stderr


def test_fresh_removes_what_is_the_jobs_own_and_nothing_else(folder: Path) -> None:
    at_rate(folder, 40)
    with running(folder) as process:
        wait_until(lambda: any((folder / "out").glob("*.parquet")))
        assert penstock(folder, "savepoint", "live", "early").returncode == 0
        refused = run(folder, "--fresh")
        assert refused.returncode == 1
        assert "job 'live' is already running" in refused.stderr
        assert penstock(folder, "stop", "live").returncode == 0
        assert process.wait(WITHIN_S) == 0
    at_rate(folder, 0)
    finish(folder)
    foreign = folder / "out" / "notes.txt"
    foreign.write_text("mine")
    (folder / "factors.py").write_text("TWO = 20\n")
    put(folder / "in", "second.parquet", 5)

    done = run(folder, "--fresh")
    assert done.returncode == 0, done.stderr
    assert "fresh: removed" in done.stdout
    assert "output files" in done.stdout, done.stdout
    assert "fresh: kept 1 savepoints" in done.stdout
    # Two files are read round-robin, so their rows may be mixed.
    assert sorted(output(folder)) == sorted(20 * n for n in (*range(ROWS), *range(5)))
    assert foreign.read_text() == "mine"
    assert (folder / ".penstock" / "live" / "savepoints" / "early").is_dir()
    assert run(folder).returncode == 0


def test_fresh_leaves_a_folder_that_is_not_the_jobs(finished: Path) -> None:
    folder = finished
    shutil.rmtree(folder / "out")
    put(folder / "out", "000000000001-output-000.0000.0000-000001-0000.parquet", 3)
    done = run(folder, "--fresh")
    assert done.returncode == 1, done.stdout
    assert "left" in done.stdout
    assert "that this job did not write" in done.stderr
    assert len(list((folder / "out").glob("*.parquet"))) == 1


def test_fresh_and_a_restore_exclude_each_other(folder: Path) -> None:
    done = run(folder, "--fresh", "--restore", "latest")
    assert done.returncode == 2
    assert "give one of them" in done.stderr


def test_a_job_that_was_stopped_or_failed_says_what_it_goes_on_from(folder: Path) -> None:
    at_rate(folder, 40)
    with running(folder) as process:
        wait_until(lambda: any((folder / "out").glob("*.parquet")))
        client = connect(folder / ".penstock", "live")
        client.stop()
        client.close()
        assert process.wait(WITHIN_S) == 0
    at_rate(folder, 0)
    change_code(folder)
    sound = (folder / "numbers_of.py").read_text()
    (folder / "numbers_of.py").write_text(sound.replace("return", "assert not len(batch); return"))
    failed = run(folder)
    assert failed.returncode == 1, failed.stdout
    assert "; its last run was stopped" in failed.stdout
    assert "] goes on from epoch " in failed.stdout
    assert f"since then the code changed: {folder}/" in failed.stdout

    (folder / "numbers_of.py").write_text(sound)
    mended = run(folder)
    assert mended.returncode == 0, mended.stderr
    assert "; its last run failed: step 'doubled'" in mended.stdout, mended.stdout
    assert output(folder) == [2 * n for n in range(ROWS)]


def test_files_of_others_in_the_output_folder_are_named(finished: Path) -> None:
    folder = finished
    put(folder / "out", "of-somebody.parquet", 3)
    done = run(folder, "--restore", "empty", "--allow-output-replay")
    assert done.returncode == 0, done.stderr
    assert "has files that no sink of this job wrote: of-somebody.parquet" in done.stdout
    done = run(folder, "--restore", "empty")
    assert done.returncode == 1
    assert "--allow-output-replay accepts that" in done.stderr
    assert "allowOutputReplay" not in done.stderr
    assert "rows read" not in done.stdout, "nothing was read by a run that was refused"


# --- Output that is gone before a job has finished ----------------------------------------------

GONE = " files are gone from FOLDER/out"


def oldest(folder: Path) -> Path:
    return min((folder / "out").glob("*.parquet"))


def newest(folder: Path) -> Path:
    return max((folder / "out").glob("*.parquet"))


@pytest.mark.parametrize(
    ("lose", "said"),
    [
        pytest.param(lambda f: oldest(f).unlink(), GONE, marks=long_only),
        (lambda f: newest(f).unlink(), GONE),
        pytest.param(lambda f: [file.unlink() for file in (f / "out").glob("*.parquet")], GONE, marks=long_only),
        (lambda f: shutil.rmtree(f / "out"), "out is gone, or is not this job's any more"),
    ],
    ids=["the oldest", "the newest", "all", "the folder"],
)
def test_a_stopped_job_whose_output_is_gone_does_not_continue_silently(
    stopped: Path, lose: Callable[[Path], object], said: str
) -> None:
    folder = stopped
    foreign = folder / "mine.txt"
    foreign.write_text("mine")
    lose(folder)
    before = sorted((folder / "out").glob("*"))
    for _ in range(2):  # a refusal changes nothing
        refused = run(folder)
        assert refused.returncode == 1, refused.stdout
        assert "live: not started: output of output: " in refused.stderr, refused.stderr
        assert said.replace("FOLDER", str(folder)) in refused.stderr, refused.stderr
        for remedy in ("put them back", "penstock run --fresh", "--allow-missing-output"):
            assert remedy in refused.stderr, refused.stderr
    assert sorted((folder / "out").glob("*")) == before

    anew = run(folder, "--fresh")
    assert anew.returncode == 0, anew.stderr
    assert output(folder) == [2 * n for n in range(ROWS)]
    assert foreign.read_text() == "mine"


def test_a_job_goes_on_without_its_output_when_it_is_told_to_and_is_not_asked_again(
    stopped: Path,
) -> None:
    folder = stopped
    lost = oldest(folder)
    rows = set(pq.read_table(lost)["n"].to_pylist())
    lost.unlink()
    at_rate(folder, 40)
    with running(folder, "--allow-missing-output") as process:
        wait_until((folder / ".penstock" / "live" / "endpoint.json").exists)
        assert penstock(folder, "stop", "live").returncode == 0
        words, _ = process.communicate(timeout=WITHIN_S)
    assert "1 of " in words, words
    assert "gone on with" in words, words
    at_rate(folder, 0)
    done = run(folder)
    assert done.returncode == 0, done.stderr
    assert set(output(folder)) == {2 * n for n in range(ROWS)} - rows
    again = run(folder)
    assert again.returncode == 0, again.stderr
    assert FINISHED in again.stdout


def test_output_that_was_put_back_counts_as_present(stopped: Path) -> None:
    folder = stopped
    lost = oldest(folder)
    lost.rename(folder / "kept")
    assert run(folder).returncode == 1
    (folder / "kept").rename(lost)
    done = run(folder)
    assert done.returncode == 0, done.stderr
    assert output(folder) == [2 * n for n in range(ROWS)]


def test_a_job_that_writes_elsewhere_now_does_not_miss_what_it_wrote_before(stopped: Path) -> None:
    folder = stopped
    shutil.rmtree(folder / "out")
    file = folder / "job.yaml"
    file.write_text(file.read_text().replace("path: out", "path: other"))
    done = run(folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("which", [oldest, newest])
def test_a_finished_job_may_be_told_that_its_output_is_taken_away(
    finished: Path, which: Callable[[Path], Path]
) -> None:
    folder = finished
    which(folder).unlink()
    assert run(folder).returncode == 1
    told = run(folder, "--allow-missing-output")
    assert told.returncode == 0, told.stderr
    assert run(folder).returncode == 0


def test_known_output_of_a_killed_run_is_missed(stopped: Path) -> None:
    folder = stopped
    at_rate(folder, 40)
    known = oldest(folder)
    with running(folder) as process:
        files = len(list((folder / "out").glob("*.parquet")))
        wait_until(lambda: len(list((folder / "out").glob("*.parquet"))) > files + 1)
        process.kill()
        process.wait(WITHIN_S)
    known.unlink()
    refused = run(folder)
    assert refused.returncode == 1, refused.stdout
    assert GONE.replace("FOLDER", str(folder)) in refused.stderr
