"""Unusual columns in ``penstock run`` are kept unchanged, or refused by name."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from penstock.cli.exits import Exit
from tests.integration.test_command_line import penstock

JOB = """\
import penstock as ps

def add(record, state):
    state["x"] += 0.6
    return []

def job(params):
    job = ps.Job()
    rows = job.source("rows", ps.parquet(params["input"]), event_time="at")
    rows.sink("same", ps.parquet(params["output"] + "/same"))
    keyed = rows.key_by("k")
    keyed.aggregate("sums", n=ps.count("tags"), total=ps.sum("u64")).sink(
        "sums-out", ps.parquet(params["output"] + "/sums")
    )
    keyed.window("hours", "1h", last=ps.last("at"), mean=ps.mean("i64")).sink(
        "hours-out", ps.parquet(params["output"] + "/hours")
    )
    if params["lossy"] == "yes":
        keyed.process(
            "lossy", add, per="record", state={"x": "int64"}, columns={"k": "string"}
        ).sink("lossy-out", ps.discard())
    return job
"""
FILE = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: odd}}
spec:
  replicas: 2
  job:
    entrypoint: odd_job:job
    parameters: {{input: {root}/in, output: {root}/out, lossy: "{lossy}"}}
"""
BERLIN = pa.timestamp("us", "Europe/Berlin")
HOUR_US = 3_600_000_000
TABLE = pa.table(
    {
        "k": ["a", "b", "a", "b"],
        "tags": [[1, 2], None, [], [3]],
        "pair": [{"x": 1, "y": "a"}, {"x": 2, "y": None}, None, {"x": 3, "y": "c"}],
        "named": pa.array([[("x", 1)], [], None, []], pa.map_(pa.string(), pa.int64())),
        "at": pa.array([0, 1, 2, 3], BERLIN),
        "span": pa.array([1, 2, 3, None], pa.duration("us")),
        "u64": pa.array([2**63 + 5, 1, 1, 2], pa.uint64()),
        "i64": [2**62, 1, 2**62 + 6, 2],
    }
)


def write_job(root: Path, lossy: str) -> tuple[str, ...]:
    (root / "in").mkdir()
    pq.write_table(TABLE, root / "in" / "a.parquet")
    (root / "odd_job.py").write_text(JOB)
    (root / "odd.yaml").write_text(FILE.format(root=root, lossy=lossy))
    return str(root / "odd.yaml"), "--dir", str(root / "state")


def written(root: Path, name: str) -> pa.Table:
    return ds.dataset(root / "out" / name, exclude_invalid_files=True).to_table()


def test_odd_columns_come_out_as_they_went_in(tmp_path: Path) -> None:
    done = penstock("run", *write_job(tmp_path, "no"))
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    same = written(tmp_path, "same")
    assert same.schema.equals(TABLE.schema)
    assert same.sort_by("at").equals(TABLE)
    sums = written(tmp_path, "sums").sort_by([("k", "ascending"), ("total", "ascending")])
    assert sums.to_pylist() == [
        {"k": "a", "n": 1, "total": 2**63 + 5},
        {"k": "a", "n": 2, "total": 2**63 + 6},
        {"k": "b", "n": 0, "total": 1},
        {"k": "b", "n": 1, "total": 3},
    ]
    hours = written(tmp_path, "hours").sort_by("k")
    assert [hours.schema.field(n).type for n in ("window_start", "window_end", "last")] == [BERLIN] * 3
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert [row["last"] - epoch for row in hours.to_pylist()] == [
        dt.timedelta(microseconds=2), dt.timedelta(microseconds=3),
    ]  # fmt: skip
    assert hours["mean"].to_pylist() == [float(2**62 + 3), 1.5]


def test_a_lossy_state_value_fails_the_job_by_step_column_value_and_record(tmp_path: Path) -> None:
    done = penstock("run", *write_job(tmp_path, "yes"))
    words = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == Exit.FAILED, words
    assert "step 'lossy'" in words
    assert "state column 'x' cannot hold 0.6 as int64: it is no whole number" in words
    assert "'k': " in words, "the record is shown"
