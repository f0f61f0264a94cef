"""A user's function that takes a millisecond a row: barriers and rescales wait for work, not for bytes.

Rows are counted, not seconds: those that were read before a barrier and are not worked off yet.
"""

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.contract.manifest import TaskManifest
from tests.integration import slow_job
from tests.integration.engine_rig import Rig, counted
from tests.integration.local_job import wait_until

WORDS = 200
ROWS = 8000  # of each file
FILES = 3
IN_FRONT_MAX = 3500  # of two or three tasks that do 1000 rows a second each

JOB = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: counts}}
spec:
  job:
    graph:
      steps:
        - name: words
          source:
            parquet: {{path: {input}}}
            columns: [{{name: word, type: string}}]
        - name: counts
          keyBy: [word]
          aggregate: {{compute: [{{name: count, function: count}}]}}
        - name: slowly
          map: {{function: "slow_job:slow"}}
        - name: output
          sink: {{parquet: {{path: {output}}}}}
"""


def word(number: int) -> str:
    return f"w{number % WORDS}".ljust(100, "-")


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    source = tmp_path / "words"
    source.mkdir()
    for file in range(FILES):
        rows = [word(file + n) for n in range(ROWS)]
        pq.write_table(pa.table({"word": rows}), source / f"part-{file}.parquet")
    shutil.copy(Path(slow_job.__file__), tmp_path / "slow_job.py")
    job = tmp_path / "job.yaml"
    job.write_text(JOB.format(input=source, output=tmp_path / "out"))
    (tmp_path / "storage").mkdir()
    with Rig(job, tmp_path) as made:
        yield made


def done(rig: Rig) -> int:
    """Count the rows that the slow function has returned."""
    folder = rig.folder / "done"
    return sum(file.stat().st_size for file in folder.iterdir()) if folder.exists() else 0


def wait_for(rig: Rig, rows: int) -> None:
    wait_until(lambda: done(rig) >= rows, shown=lambda: f"{done(rig)} of {rows} rows are done")


def read(manifests: tuple[TaskManifest, ...]) -> int:
    """Count the rows that sources had read at their snapshots."""
    return sum(split.offset for manifest in manifests for split in manifest.splits)


def check(folder: Path) -> None:
    """Check that the counts of each word rise by one, up to how often it is there."""
    assert counted(folder) == Counter(word(file + n) for file in range(FILES) for n in range(ROWS))


def test_a_barrier_waits_for_work_not_for_bytes(rig: Rig) -> None:
    rig.spawn(0, 1)
    rig.begin()
    for rows in (2500, 5000, 7500):
        wait_for(rig, rows)
        before = done(rig)
        in_front = read(rig.checkpoint().tasks) - before
        assert in_front <= IN_FRONT_MAX, f"{in_front} rows stood before the barrier"


def test_a_slow_step_is_rescaled_live_and_no_row_is_lost(rig: Rig) -> None:
    rig.spawn(0, 1)
    rig.begin()
    wait_for(rig, 2500)
    rig.spawn(2)
    for workers in (3, 2):
        table = rig.prepare(workers)
        before = done(rig)
        in_front = read(rig.switch(table, workers).tasks) - before
        assert in_front <= IN_FRONT_MAX, f"{in_front} rows stood before the barrier to {workers}"
    rig.finish()
    check(rig.folder / "out")
