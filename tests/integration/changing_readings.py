"""A job of readings whose module changes while it runs: its input, its real processes, and what it wrote."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.graph import keep_job_file, read_job_file
from tests.integration.engine_rig import Rig

FILES, ROWS, KEYS = 4, 5000, 40
HEAD = """
import penstock as ps


@ps.record
class Reading:
    mote: int
    value: int


@ps.record
class Seen:
    mote: int
    version: int
    number: int
    values: str

"""
JOB = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: changing}
spec:
  replicas: 2
  checkpoint: {interval: 2s}
  job:
    parameters: {folder: ., rate: "0"}
    graph:
      steps:
        - name: readings
          source:
            parquet: {path: "${folder}/in", rate: "${rate}"}
        - name: look
          keyBy: [mote]
          process: {function: "changing_readings:look"MIGRATE}
        - {name: output, sink: {parquet: {path: "${folder}/out"}}}
"""
MIGRATE = ', migrate: "changing_readings:convert"'


def write_input(folder: Path) -> dict[int, list[int]]:
    """Write files, of which each has motes of its own; return the values of each mote in order."""
    chosen, found = random.Random(5), defaultdict[int, list[int]](list)
    folder.mkdir()
    for file in range(FILES):
        rows = [(file * KEYS + chosen.randrange(KEYS), chosen.randrange(1000)) for _ in range(ROWS)]
        for mote, value in rows:
            found[mote].append(value)
        columns = dict(zip(("mote", "value"), zip(*rows, strict=True), strict=True))
        pq.write_table(pa.table(columns), folder / f"{file}.parquet")
    return dict(found)


class ChangingJob:
    """The job in ``folder``, on real engines."""

    def __init__(self, folder: Path, rig: Rig) -> None:
        self._folder, self.rig = folder, rig

    def change(self, module: str, rate: int) -> None:
        """Take a checkpoint, end all engines, and begin with another module on two."""
        self.rig.checkpoint(publish=False)
        for ordinal in list(self.rig.engines):
            self.rig.kill(ordinal)
        keep(self._folder, module, rate)
        self.rig.spawn(0, 1)
        self.rig.begin()


def keep(folder: Path, module: str, rate: int) -> None:
    """Write the module and the job file. The job migrates if the module has a function ``convert``."""
    (folder / "changing_readings.py").write_text(HEAD + module)
    (folder / "job.yaml").write_text(JOB.replace("MIGRATE", MIGRATE if "def convert(" in module else ""))
    given = f"job.parameters.folder={folder}", f"job.parameters.rate={rate}"
    keep_job_file(read_job_file(folder / "job.yaml", given), folder / "job.json")


@contextmanager
def changing_job(folder: Path, module: str, rate: int) -> Iterator[ChangingJob]:
    """Begin with a module, on two engines, and take a checkpoint."""
    (folder / "storage").mkdir()
    keep(folder, module, rate)
    with Rig(folder / "job.json", folder) as rig:
        rig.spawn(0, 1)
        rig.begin()
        rig.checkpoint()
        yield ChangingJob(folder, rig)


def written(folder: Path) -> dict[int, list[tuple[int, int, str]]]:
    """Return version, number and values of the rows of each mote, by their number."""
    found = defaultdict[int, list[tuple[int, int, str]]](list)
    for row in pq.read_table(folder).to_pylist():
        found[row["mote"]].append((row["version"], row["number"], row["values"]))
    return {mote: sorted(rows, key=lambda row: row[1]) for mote, rows in found.items()}


def check_versions(
    folder: Path,
    values: dict[int, list[int]],
    expected: Callable[[list[int], list[int]], Iterable[tuple[int, int, str]]],
) -> None:
    """Check that all three versions of the module wrote, one after the other, what each of them had to.

    ``expected`` gives the rows of a mote for its values and the version that saw each.
    """
    seen = written(folder)
    assert {version for rows in seen.values() for version, _, _ in rows} == {1, 2, 3}
    for mote, rows in seen.items():
        versions = [version for version, _, _ in rows]
        assert versions == sorted(versions), mote
        assert rows == list(expected(values[mote], versions)), mote
    assert {mote: len(rows) for mote, rows in seen.items()} == {mote: len(own) for mote, own in values.items()}
