"""A job goes on exactly when the class of its state changes: through kills and rescales, in real processes.

Each row that is written says which version of the function made it. How far a version came depends on the machine;
what each row must have does not.
"""

import random
from collections import defaultdict
from collections.abc import Iterator
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


@ps.state
class Kept:
    number: int = 1000
"""
FIRST = (
    HEAD
    + """
    last: ps.Ring[int, 3]
    label: str = "none"
    odd: ps.Set[int]


def look(r: Reading, s: Kept, out: ps.Out[Seen]):
    s.number += 1
    s.last.append(r.value)
    s.label = f"{r.value}"
    s.odd.add(r.value % 7)
    out.emit(Seen(r.mote, 1, s.number, f"{list(s.last)} {list(s.odd)}"))
"""
)
SECOND = (
    HEAD
    + """
    since: ps.int16 = 50
    last: ps.Ring[int, 3]
    few: ps.Map[int, int]


def look(r: Reading, s: Kept, out: ps.Out[Seen]):
    s.number += 1
    s.since += 1
    s.last.append(r.value)
    s.few[r.value % 5] = s.few.get(r.value % 5, 0) + 1
    out.emit(Seen(r.mote, 2, s.number, f"{list(s.last)} {s.since} {list(s.few.items())}"))
"""
)
THIRD = (
    HEAD
    + """
    odd: ps.Set[int]
    after: float | None = ps.renamed("since", default=9.0)
    last: ps.Ring[int, 2]
    counts: ps.Map[int, int] = ps.renamed("few")


def look(r: Reading, s: Kept, out: ps.Out[Seen]):
    s.number += 1
    s.after += 1
    s.odd.add(r.value % 7)
    s.last.append(r.value)
    out.emit(Seen(r.mote, 3, s.number, f"{list(s.last)} {s.after} {list(s.odd)} {list(s.counts.items())}"))
"""
)
JOB = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: evolving}
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
          process: {function: "evolving_readings:look"}
        - {name: output, sink: {parquet: {path: "${folder}/out"}}}
"""


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


def expected(values: list[int], versions: list[int]) -> Iterator[tuple[int, int, str]]:
    """Compute the rows of one mote, of which each value was seen by a version."""
    number, last, odd, before = 1000, list[int](), set[int](), versions[0]
    few = dict[int, int]()
    since: float = 9 if before == 3 else 50  # the second version gives it to all keys that are there
    for value, version in zip(values, versions, strict=True):
        if version != before:
            odd, before = set(), version  # the second version has dropped it, and the third begins anew
        number, since = number + 1, since + (version > 1)
        last = [*last, value][-2 if version == 3 else -3 :]
        odd.add(value % 7)
        if version == 2:
            few[value % 5] = few.get(value % 5, 0) + 1
        more = {
            1: f"{sorted(odd)}",
            2: f"{since} {sorted(few.items())}",
            3: f"{since:.1f} {sorted(odd)} {sorted(few.items())}",
        }[version]
        yield version, number, f"{last} {more}"


def written(folder: Path) -> dict[int, list[tuple[int, int, str]]]:
    """Return the rows of each mote by their number. Fails where a version comes after a later one."""
    found = defaultdict[int, list[tuple[int, int, str]]](list)
    for row in pq.read_table(folder).to_pylist():
        found[row["mote"]].append((row["version"], row["number"], row["values"]))
    return {mote: sorted(rows, key=lambda row: row[1]) for mote, rows in found.items()}


def test_fields_that_change_are_exact_through_kills_and_rescales(tmp_path: Path) -> None:
    values = write_input(tmp_path / "in")
    module = tmp_path / "evolving_readings.py"
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "storage").mkdir()

    def keep(text: str, rate: int) -> None:
        module.write_text(text)
        given = f"job.parameters.folder={tmp_path}", f"job.parameters.rate={rate}"
        keep_job_file(read_job_file(tmp_path / "job.yaml", given), tmp_path / "job.json")

    def change(rig: Rig, text: str, rate: int) -> None:
        rig.checkpoint(publish=False)
        for ordinal in list(rig.engines):
            rig.kill(ordinal)
        keep(text, rate)
        rig.spawn(0, 1)
        rig.begin()

    keep(FIRST, 50)
    with Rig(tmp_path / "job.json", tmp_path) as rig:
        rig.spawn(0, 1)
        rig.begin()
        rig.checkpoint()
        change(rig, SECOND, 50)
        rig.spawn(2)
        rig.rescale(3)  # the first epoch of the changed job
        rig.lose(2)
        rig.rescale(2)
        change(rig, THIRD, 0)  # the rest of the input at once
        rig.finish()

    seen = written(tmp_path / "out")
    assert {version for rows in seen.values() for version, _, _ in rows} == {1, 2, 3}
    for mote, rows in seen.items():
        versions = [version for version, _, _ in rows]
        assert versions == sorted(versions), mote
        assert rows == list(expected(values[mote], versions)), mote
    assert {mote: len(rows) for mote, rows in seen.items()} == {mote: len(own) for mote, own in values.items()}
