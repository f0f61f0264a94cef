"""Word count through real engine processes: exact, whatever happens between."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.model.elements import BarrierKind
from tests.integration.engine_rig import TERM, Rig, counted

WORDS = 300
LINES = 4000
FILES = 5

JOB = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: counts}}
spec:
  job:
    graph:
      steps:
        - name: lines
          source:
            parquet: {{path: {input}, rate: 1500}}
            columns: [{{name: line, type: string}}]
        - name: words
          split: {{column: line, into: word}}
        - name: counts
          keyBy: [word]
          aggregate: {{compute: [{{name: count, function: count}}]}}
        - name: output
          sink: {{parquet: {{path: {output}}}}}
"""


def line(number: int) -> str:
    return " ".join(f"w{number * k % WORDS}" for k in (1, 7, 11)) + " " * (number % 3)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    source = tmp_path / "lines"
    source.mkdir()
    for file in range(FILES):
        lines = [line(file * LINES + n) for n in range(LINES)]
        pq.write_table(pa.table({"line": lines}), source / f"part-{file}.parquet")
    job = tmp_path / "job.yaml"
    job.write_text(JOB.format(input=source, output=tmp_path / "out"))
    (tmp_path / "storage").mkdir()
    with Rig(job, tmp_path) as made:
        yield made


def expected() -> Counter[str]:
    words: Counter[str] = Counter()
    for number in range(FILES * LINES):
        found = line(number).split(" ")
        words.update(found[:-1] if found[-1] == "" else found)
    return words


def check(folder: Path) -> None:
    """Sorted by file name, then row, the counts of each word rise by one, up to the oracle's."""
    assert counted(folder) == expected()


def test_word_count_is_exact_with_checkpoints_under_way(rig: Rig) -> None:
    rig.spawn(0, 1)
    rig.begin()
    for _ in range(3):
        rig.checkpoint()
    rig.finish()
    check(rig.folder / "out")


def test_a_barrier_in_band_begins_the_sources_that_the_leader_has_not_told(rig: Rig) -> None:
    rig.spawn(0, 1)
    rig.begin()
    inject = rig.barrier(BarrierKind.CHECKPOINT)
    rig.engines[0].link.send(TERM, inject)
    manifests = rig.acked(inject.epoch)
    assert rig.assignment is not None
    root = rig.write_root(inject.epoch, BarrierKind.CHECKPOINT, manifests, rig.assignment)
    rig.engines[1].link.send(TERM, inject)  # it comes late, and changes nothing
    rig.commit(inject.epoch, root)
    rig.all(lambda s: s.published >= inject.epoch, "publication")
    rig.checkpoint()
    acked = [ack for engine in rig.engines.values() for ack in engine.acked]
    assert sorted(acked) == sorted({(e, t) for t in rig.assignment.tasks() for e in (1, 2)})
    rig.lose(1)
    rig.finish()
    check(rig.folder / "out")


def test_word_count_is_exact_after_an_engine_is_killed(rig: Rig) -> None:
    rig.spawn(0, 1)
    rig.begin()
    rig.checkpoint()
    rig.lose(1)
    rig.checkpoint()
    rig.finish()
    check(rig.folder / "out")
    wanted = {attempt for engine in rig.lives for attempt in engine.wanted}
    assert wanted == {1}, "a restored job does not wait for the first rows at a sink"


def test_word_count_is_exact_through_rescales(rig: Rig) -> None:
    rig.spawn(0, 1)
    rig.begin()
    rig.checkpoint()
    rig.spawn(2)
    rig.rescale(3)
    rig.checkpoint()
    rig.rescale(2)
    rig.checkpoint()
    rig.spawn(2)  # the same ordinal in the same attempt, as another life
    rig.rescale(3)
    rig.checkpoint()
    rig.finish()
    check(rig.folder / "out")
