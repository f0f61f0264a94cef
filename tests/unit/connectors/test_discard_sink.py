from pathlib import Path

import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError
from penstock.connectors.discard_sink import (
    LATENCY_AT_PREFIX,
    LATENCY_PREFIX,
    ROWS_AT_PREFIX,
    DiscardSink,
    DiscardSpec,
    bucket,
    read_reports,
)
from penstock.contract.ids import Attempt, Epoch, Ordinal, StageIndex, TaskId

SCHEMA = pa.schema([("word", pa.string()), ("count", pa.int64()), ("__bound", pa.int64())])
TASK = TaskId(StageIndex(1), Ordinal(0), 0)


def batch(*counts: int) -> pa.RecordBatch:
    columns = [["w"] * len(counts), list(counts), list(counts)]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def test_totals_are_published_once_however_often(tmp_path: Path) -> None:
    sink = DiscardSink("end", SCHEMA, DiscardSpec(str(tmp_path)))
    sink.claim("job", fresh=True)
    writer = sink.writer(TASK, Attempt(1))
    writer.write(batch(1, 2, 3))
    first = writer.seal(Epoch(1), "a").finish()
    writer.write(batch(4))
    second = writer.seal(Epoch(2), "b").finish()
    assert first is not None
    assert second is not None
    assert read_reports(tmp_path) == {}
    for handle in (first, second, first):
        sink.publisher.publish(handle, Epoch(2))
    totals = read_reports(tmp_path)
    assert (totals["rows"], totals["count"]) == (4, 10)
    assert sum(n for name, n in totals.items() if name.startswith(ROWS_AT_PREFIX)) == 4
    assert {path.suffix for path in tmp_path.iterdir() if path.name != "OWNER"} == {".json"}, "renamed, not copied"


def test_an_epoch_without_rows_has_no_handle() -> None:
    writer = DiscardSink("end", SCHEMA).writer(TASK, Attempt(1))
    assert writer.room()
    assert writer.seal(Epoch(1), "a").finish() is None


@pytest.mark.parametrize("fresh", [True, False])
def test_old_reports_are_refused(tmp_path: Path, fresh: bool) -> None:
    sink = DiscardSink("end", SCHEMA, DiscardSpec(str(tmp_path)))
    sink.claim("another", fresh=True)
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(ConfigError, match="holds another run's reports"):
        sink.claim("job", fresh=fresh)
    sink.claim("another", fresh=fresh)


def test_ages_of_markers_are_counted_in_narrow_buckets(tmp_path: Path) -> None:
    sink = DiscardSink("end", SCHEMA, DiscardSpec(str(tmp_path)))
    writer = sink.writer(TASK, Attempt(1))
    writer.write(batch(1))
    for latency_ns in (5_900, 5_100, 1_000_000, 1_003_999, -3):
        writer.mark(latency_ns)
    handle = writer.seal(Epoch(1), "a").finish()
    assert handle is not None
    sink.claim("job", fresh=True)
    sink.publisher.publish(handle, Epoch(1))
    totals = read_reports(tmp_path)
    by_time = [k.rpartition(".")[2] for k in totals if k.startswith(LATENCY_AT_PREFIX)]
    assert set(by_time) == {"0", "5", "1000"}
    assert {k: v for k, v in totals.items() if k.startswith(LATENCY_PREFIX)} == {
        "latency_us.0": 1,
        "latency_us.5": 2,
        "latency_us.1000": 2,
    }
    early = DiscardSink("end", SCHEMA, DiscardSpec(mark_after_s=60.0)).writer(TASK, Attempt(1))
    early.write(batch(1))
    early.mark(5)
    seen = early.seal(Epoch(1), "a").finish()
    assert seen is not None
    assert "latency" not in seen.data
    assert all(0 <= n - bucket(n * 1000) <= n * 0.01 for n in range(1, 1_000_000, 997))


def test_a_requested_stall_takes_no_rows_for_its_time() -> None:
    writer = DiscardSink("end", SCHEMA, DiscardSpec(None, 0.0, 60.0)).writer(TASK, Attempt(1))
    assert writer.room()
    writer.write(batch(1))
    assert not writer.room()
    later = DiscardSink("end", SCHEMA, DiscardSpec(None, 60.0, 60.0)).writer(TASK, Attempt(1))
    later.write(batch(1))
    assert later.room()


def test_nulls_add_nothing() -> None:
    schema = pa.schema([("n", pa.int64())])
    writer = DiscardSink("end", schema).writer(TASK, Attempt(1))
    writer.write(pa.record_batch([pa.array([1, None, 5], pa.int64())], schema=schema))
    writer.write(pa.record_batch([pa.array([9, 2, 3], pa.int64())], schema=schema).slice(1))
    handle = writer.seal(Epoch(1), "a").finish()
    assert handle is not None
    assert '"n": 11' in handle.data
