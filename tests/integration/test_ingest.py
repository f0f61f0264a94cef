"""Pushed rows end to end: real streams to one source, and to a real job whose workers die."""

import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.base.errors import PeerError, StateError
from penstock.base.values import replace
from penstock.connectors.ingest import IngestReader, IngestSource
from penstock.contract import codec
from penstock.contract.columns import Column
from penstock.contract.ids import Epoch
from penstock_spark.demo.job import JobFiles, RunningJob, is_well
from penstock_spark.push import Push, Pushed, Pusher
from tests.integration.cluster_rig import ROOT, line, send, words_of

LINE = (Column("line", "string"),)
ROWS = 20_000
SENDER = """
import sys
from penstock.contract import codec
from penstock_spark.push import Push, Pusher
Pusher(codec.decode(Push, sys.argv[1].encode())).run()
"""


def write(folder: Path, files: int, rows: int) -> list[str]:
    folder.mkdir()
    names = []
    for file in range(files):
        table = pa.table({"line": [line(n) for n in range(file * rows, (file + 1) * rows)]})
        names.append(str(folder / f"part-{file}.parquet"))
        pq.write_table(table, names[-1], row_group_size=3000)
    return names


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as made:
        yield made


def drain(reader: IngestReader, rows: int, future: "Future[Pushed] | None" = None) -> list[str]:
    """Read until there are so many rows."""
    found: list[str] = []
    pause = threading.Event()
    while len(found) < rows:
        read = reader.read(1000)
        if read is None:
            assert future is None or not future.done(), future
            pause.wait(0.002)
        else:
            found += read.batch.column("line").to_pylist()
    return found


def test_a_partition_is_pushed_through_resets_once_and_in_order(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    files = write(tmp_path / "in", 2, ROWS // 2)
    source = IngestSource(1, str(tmp_path / "announce"), LINE)
    state = source.splits()[0]
    reader = source.open(state)
    push = Push(str(tmp_path / "announce"), tuple(files), 0, 1, sender=7)
    future = pool.submit(Pusher(push).run)
    expected = [line(n) for n in range(ROWS)]

    assert drain(reader, 5000, future)[:5000] == expected[:5000]
    cut = reader.state()
    drain(reader, 3000, future)
    reader.close()  # a reset: everything since the cut is forgotten
    reader = source.open(cut)
    assert drain(reader, ROWS - cut.offset, future) == expected[cut.offset :]
    while not reader.state().finished:
        assert reader.read(1000) is None
    assert not future.done(), "a sender stays until the end is committed"
    reader.committed(Epoch(9), reader.state())
    pushed = future.result(60)
    assert (pushed.answer, pushed.rows) == ("finished", ROWS)
    assert pushed.dials >= 2
    assert Pusher(replace(push, sender=8)).run().answer == "finished"
    reader.close()

    # Another job uses the same folder. The first job's note must not end its senders.
    reader = IngestSource(1, str(tmp_path / "announce"), LINE).open(state)
    future = pool.submit(Pusher(push).run)
    assert drain(reader, 5000, future)[:5000] == expected[:5000]
    cut = reader.state()
    reader.close()  # a reset of it: its sender looks for the note
    reader = IngestSource(1, str(tmp_path / "announce"), LINE).open(cut)
    assert drain(reader, ROWS - cut.offset, future) == expected[cut.offset :]
    assert not future.done()
    while not reader.state().finished:
        assert reader.read(1000) is None
    reader.committed(Epoch(1), reader.state())
    assert future.result(60).answer == "finished"
    reader.close()


def test_a_partition_whose_sender_has_gone_is_not_waited_for(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    """A job is restored to an epoch before the end of a partition, which was committed."""
    files = write(tmp_path / "in", 1, ROWS)
    source = IngestSource(1, str(tmp_path / "announce"), LINE)
    reader = source.open(source.splits()[0])
    push = Push(str(tmp_path / "announce"), tuple(files), 0, 1, sender=1)
    future = pool.submit(Pusher(push).run)
    drain(reader, 5000, future)
    older = reader.state()
    drain(reader, ROWS - older.offset, future)
    while not reader.state().finished:
        assert reader.read(1000) is None
    reader.committed(Epoch(9), reader.state())
    assert future.result(60).answer == "finished"
    reader.close()

    with pytest.raises(StateError, match=r"partition 0 ended at row 20000.*push it once more: re"):
        source.open(older)
    (note,) = (tmp_path / "announce").glob("*.finished")
    note.unlink()
    reader = source.open(older)
    again = pool.submit(Pusher(replace(push, sender=2)).run)
    left = [line(n) for n in range(older.offset, ROWS)]
    assert drain(reader, len(left), again) == left
    while not reader.state().finished:
        assert reader.read(1000) is None
    reader.committed(Epoch(10), reader.state())
    assert again.result(60).answer == "finished"
    reader.close()


def test_the_sender_with_the_higher_number_replaces_the_other(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    files = write(tmp_path / "in", 1, ROWS)
    source = IngestSource(1, str(tmp_path / "announce"), LINE)
    reader = source.open(source.splits()[0])
    low = Push(str(tmp_path / "announce"), tuple(files), 0, 1, sender=1, rate=1000)
    loser = pool.submit(Pusher(low).run)
    found = drain(reader, 1, loser)
    winner = pool.submit(Pusher(replace(low, sender=2, rate=None)).run)
    found += drain(reader, ROWS - len(found), winner)
    assert found == [line(n) for n in range(ROWS)]
    assert loser.result(60).answer == "superseded"
    while not reader.state().finished:
        assert reader.read(1000) is None
    reader.committed(Epoch(1), reader.state())
    assert winner.result(60).answer == "finished"
    reader.close()


def test_a_sender_that_is_killed_is_followed_by_its_next_attempt(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    files = write(tmp_path / "in", 1, ROWS)
    source = IngestSource(1, str(tmp_path / "announce"), LINE)
    reader = source.open(source.splits()[0])
    push = Push(str(tmp_path / "announce"), tuple(files), 0, 1, sender=1, rate=5000)
    killed = subprocess.Popen([sys.executable, "-c", SENDER, codec.encode(push)])
    found = drain(reader, 3000)
    killed.kill()
    killed.wait()
    future = pool.submit(Pusher(replace(push, sender=2, rate=None)).run)
    found += drain(reader, ROWS - len(found), future)
    assert found == [line(n) for n in range(ROWS)]
    while not reader.state().finished:
        assert reader.read(1000) is None
    reader.committed(Epoch(1), reader.state())
    assert future.result(60).answer == "finished"
    reader.close()


def test_other_columns_and_partitions_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "x.parquet")
    source = IngestSource(1, str(tmp_path / "announce"), LINE)
    reader = source.open(source.splits()[0])
    push = Push(str(tmp_path / "announce"), (str(tmp_path / "x.parquet"),), 0, 1, sender=1)
    with pytest.raises(PeerError, match="rows with line are taken, got text"):
        Pusher(push).run()
    with pytest.raises(PeerError, match="partition 0 of 3 is not known"):
        Pusher(replace(push, partitions=3)).run()
    reader.close()


def test_a_job_takes_pushed_rows_exactly_once_through_crashes_and_a_rescale(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    files = write(tmp_path / "in", 4, 4000)
    output, announce = tmp_path / "out", tmp_path / "announce"
    settings = [f"job.parameters.announce={announce}", f"job.parameters.output={output}"]
    job_file = ROOT / "examples" / "replay.yaml"
    places = JobFiles("replay", job_file, settings, output, tmp_path / "state", tmp_path / "run.log")
    job = RunningJob(places, 2)
    try:
        before = job.until("a running job", is_well, 120)
        pushes = [Push(str(announce), (file,), n, 4, sender=1, rate=250) for n, file in enumerate(files)]
        # The last partition is not seen until the end, so the job lasts as long as it must.
        futures = [pool.submit(Pusher(p).run) for p in pushes[:3]]
        job.epochs(2)
        victim = next(w for w in job.workers() if not w.leader)
        send(signal.SIGKILL, victim.engine_pid)
        job.until("recovery", lambda s: s.attempt > before.attempt and is_well(s), 120)
        job.rescale(3)
        futures.append(pool.submit(Pusher(replace(pushes[3], rate=None)).run))
        assert {f.result(120).answer for f in futures} == {"finished"}
        assert job.wait(120) == 0, job.words()
    finally:
        job.end()
    found: Counter[str] = Counter()
    for part in sorted(output.glob("*.parquet")):
        table = pq.read_table(part)
        for word, count in zip(*(c.to_pylist() for c in table.columns), strict=True):
            found[word] += 1
            assert count == found[word]
    assert found == Counter(w for n in range(16_000) for w in words_of(line(n)))
