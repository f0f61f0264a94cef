"""What ``penstock run --fresh`` removes of the folder of a job: what is a job's, and nothing else."""

from pathlib import Path

from penstock.cli.own_files import forget_runs
from penstock.cli.record import JobRecord
from penstock.supervisor.folders import JobFolder

OF_A_JOB = (
    "record.json",
    "metadata.sqlite",
    "metadata.sqlite-wal",
    "endpoint.json",
    ".record.json.4711",
    "supervisor.log",
    "job-0123456789ab.json",
    "job-0123456789ab.places.json",
    "checkpoints/default/words/uid/ROOT",
    "workers/0/log",
)
OF_SOMEBODY = ("thesis.txt", "src/words.py", "job-hunt.txt")


def filled(directory: Path, *names: str) -> JobFolder:
    folder = JobFolder.make(directory, "words", "default")
    for name in names:
        (folder.root / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.root / name).touch()
    return folder


def left(folder: JobFolder) -> set[str]:
    return {str(path.relative_to(folder.root)) for path in folder.root.rglob("*") if path.is_file()}


def test_a_folder_that_is_no_jobs_keeps_all_that_is_in_it(tmp_path: Path) -> None:
    names = (*OF_SOMEBODY, "workers/of_mine.py", "checkpoints/model.pt", "lock")
    folder = filled(tmp_path, *names)
    assert forget_runs(folder, None, JobRecord()) == ("fresh: there was nothing of this job",)
    assert left(folder) == set(names)


def test_files_of_somebody_among_those_of_a_job_stay_and_are_named(tmp_path: Path) -> None:
    folder = filled(tmp_path, *OF_A_JOB, *OF_SOMEBODY, "savepoints/monday/ROOT", "lock")
    folder.uid()
    assert forget_runs(folder, None, JobRecord()) == (
        f"fresh: removed the state of epoch 0 in {folder.root}",
        f"fresh: left what is no job's in {folder.root}: job-hunt.txt, src, thesis.txt",
        f"fresh: kept 1 savepoints in {folder.savepoints}",
    )
    assert left(folder) == {*OF_SOMEBODY, "savepoints/monday/ROOT", "lock"}
