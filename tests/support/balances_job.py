"""A job that keeps a balance for each account, for tests of savepoints as tables."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

CODE = """\
import penstock as ps

STATE = {"total": "int64", "note": "string", "rate": "double", "limit": "decimal128(12, 2)", "since": "timestamp[us]"}


def add(record, state):
    state["total"] += record["amount"]
    return [{"account": record["account"], "total": state["total"], "note": state["note"]}]


def job(params):
    job = ps.Job()
    rows = job.source("rows", ps.parquet(params["input"]), columns={"account": "string", "amount": "int64"})
    columns = {"account": "string", "total": "int64", "note": "string"}
    sums = rows.key_by("account").process("add", add, per="record", state=STATE, columns=columns)
    sums.sink("out", ps.parquet(params["output"]))
    rows.key_by("account").aggregate("count", n=ps.count()).sink("counts", ps.discard())
    return job
"""

SCHEMA = pa.schema(
    {
        "account": pa.string(),
        "total": pa.int64(),
        "note": pa.string(),
        "rate": pa.float64(),
        "limit": pa.decimal128(12, 2),
        "since": pa.timestamp("us"),
    }
)


def write_job(folder: Path, module: str, rows: list[dict[str, Any]]) -> Path:
    """Write the job, and ``rows`` as its input; return the job file. ``module`` names the module of its code."""
    (folder / f"{module}.py").write_text(CODE)
    (folder / "input").mkdir()
    types = pa.schema({"account": pa.string(), "amount": pa.int64()})
    pq.write_table(pa.Table.from_pylist(rows, schema=types), folder / "input" / "part-0.parquet")
    parameters = {"input": str(folder / "input"), "output": str(folder / "out")}
    job = {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "StreamJob",
        "metadata": {"name": "balances"},
        "spec": {"replicas": 2, "job": {"entrypoint": f"{module}:job", "parameters": parameters}},
    }
    file = folder / "balances.yaml"
    file.write_text(json.dumps(job))
    return file
