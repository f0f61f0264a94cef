"""A job whose state is kept for later revisions: declared state, running aggregates and windows."""

from typing import Any

import penstock as ps

STATE = {
    "total": "int64",
    "note": "string",
    "rate": "double",
    "limit": "decimal128(12, 2)",
    "since": "timestamp[us]",
    "seen": "bool",
}


def add(record: dict[str, Any], state: Any) -> list[dict[str, Any]]:
    """Add the amount to the balance of the account. Every column of the state is used."""
    state["total"] += record["amount"]
    state["note"] = f"{record['account']}: {record['amount']}"
    state["rate"] += 0.5
    state["limit"] = record["limit"] if state["limit"] is None else state["limit"]
    state["since"] = record["at"] if not state["seen"] else state["since"]
    state["seen"] = True
    return [{"account": record["account"], **{name: state[name] for name in STATE if name != "seen"}}]


def job(params: dict[str, str]) -> ps.Job:
    """Read rows of accounts. Write balances, aggregates and windows, each to a folder."""
    job = ps.Job()
    columns = {"account": "string", "amount": "int64", "limit": "decimal128(12, 2)", "at": "timestamp[us]"}
    source = ps.parquet(params["input"], rate=int(params["rate"]))
    rows = job.source("rows", source, columns=columns, event_time="at", out_of_orderness="5s").key_by("account")
    given = {"account": "string", **{name: kind for name, kind in STATE.items() if name != "seen"}}
    rows.process("add", add, per="record", state=STATE, columns=given).sink("balances", out(params, "balances"))
    computed = {
        "n": ps.count(),
        "total": ps.sum("amount"),
        "mean": ps.mean("amount"),
        "least": ps.min("amount"),
        "most": ps.max("at"),
        "last": ps.last("amount"),
    }
    rows.aggregate("running", **computed).sink("aggregates", out(params, "aggregates"))
    rows.window("minutes", "1m", n=ps.count(), total=ps.sum("amount")).sink("windows", out(params, "windows"))
    return job


def out(params: dict[str, str], name: str) -> Any:
    """Return the sink that writes the folder ``name`` of the output."""
    return ps.parquet(f"{params['output']}/{name}")
