"""The scheme of a custom edge changes on a running job under load: keyed state behind it and its order stay exact."""

import os
import shutil
import signal
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.contract.schemes import SchemeChoice
from penstock.contract.status import RequestAnswer
from penstock.graph import keep_job_file, read_job_file
from penstock.supervisor import ClusterSettings, LocalCluster
from tests.integration import schemes_job
from tests.integration.local_job import CHECKPOINTS, QUICK, after_more, finish, sound, started, until, wait_until

FILES, ROWS, KEYS = 3, 12_000, 5
EVEN, TURNED = SchemeChoice("work", "even"), SchemeChoice("work", "turned")
JOB = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: dealt}}
spec:
  job:
    entrypoint: schemes_job:job
    parameters: {{input: {folder}/in, output: {folder}/out, rate: "200"}}
"""


def make_input(folder: Path, names: Sequence[int] = range(FILES * KEYS)) -> dict[int, list[int]]:
    """Write files of keys of their own, so the order of the rows of a key is known. Return the rows by key."""
    folder.mkdir()
    made: dict[int, list[int]] = defaultdict(list)
    for file in range(FILES):
        keys = [names[file * KEYS + n * n // 7 % KEYS] for n in range(ROWS)]
        pq.write_table(pa.table({"key": keys, "n": range(ROWS)}), folder / f"part-{file}.parquet", row_group_size=500)
        for n, key in enumerate(keys):
            made[key].append(n)
    return made


def write_job(folder: Path) -> None:
    shutil.copy(Path(schemes_job.__file__), folder / "schemes_job.py")
    (folder / "job.yaml").write_text(JOB.format(folder=folder))


def settings(folder: Path, rate: int, choice: SchemeChoice) -> ClusterSettings:
    job = read_job_file(folder / "job.yaml", [f"job.parameters.rate={rate}"])
    kept = folder / "state" / "dealt" / f"job-{rate}.json"
    keep_job_file(job, kept)
    return ClusterSettings(
        job="dealt",
        job_file=kept,
        directory=folder / "state",
        workers=2,
        checkpoint=CHECKPOINTS,
        control=QUICK,
        partition=(choice,),
    )


def answer_to(cluster: LocalCluster, *choices: SchemeChoice) -> RequestAnswer:
    asked = cluster.partition(choices)
    wait_until(lambda: cluster.answer(asked.id).ok is not None)
    return cluster.answer(asked.id)


def written(folder: Path) -> dict[int, list[tuple[int, int]]]:
    """Return the counts and last values of each key, in the order of the output."""
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for file in sorted(folder.glob("*.parquet")):
        for row in pq.read_table(file).to_pylist():
            found[row["key"]].append((row["count"], row["last"]))
    return found


def test_a_scheme_changes_twice_under_load_with_a_killed_engine_in_between(tmp_path: Path) -> None:
    made = make_input(tmp_path / "in")
    write_job(tmp_path)
    with started(settings(tmp_path, 200, EVEN)) as cluster:
        assert after_more(cluster).schemes == (EVEN,)
        assert answer_to(cluster, TURNED).text == "rows go to work by turned"
        before = until(cluster, sound)
        assert (before.schemes, before.version) == ((TURNED,), 2)
        engine = before.workers[1].engine_pid
        assert engine is not None
        os.kill(engine, signal.SIGKILL)
        after = until(cluster, lambda s: sound(s) and s.attempt > before.attempt)
        assert after.schemes == (TURNED,)  # the table of the checkpoint has it
        assert answer_to(cluster, EVEN).ok
        bad = answer_to(cluster, SchemeChoice("work", "trned"), SchemeChoice("counts", "even"))
        assert not bad.ok
        assert bad.text.splitlines() == [
            "work=trned: step 'work' has no scheme 'trned'; its schemes: even, turned",
            "counts=even: no step 'counts' has schemes; steps with schemes: work",
        ]
        assert after_more(cluster).schemes == (EVEN,)
        cluster.stop()
        assert cluster.wait(120.0) is not None
    assert 0 < sum(map(len, written(tmp_path / "out").values())) < FILES * ROWS  # there was input all the time
    with started(settings(tmp_path, 0, TURNED)) as again:
        assert finish(again).schemes == (TURNED,)
    found = written(tmp_path / "out")
    assert found == {key: list(enumerate(rows, start=1)) for key, rows in made.items()}
