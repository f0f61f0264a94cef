"""Spark makes the state of a function with types, and reads it: every kind of field, with the same key groups."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tests.integration.test_command_line import penstock

KEYS, NEW, ROWS = 3_000, 500, 20_000
MODULE = """
import penstock as ps


@ps.record
class Payment:
    account: str
    kind: ps.Enum["card", "cash"]
    cents: int
    at: ps.Time


@ps.record
class Place:
    name: str
    floor: int | None = None


@ps.record
class Balance:
    account: str
    total: int


@ps.state
class Account:
    total: int = 0
    kind: ps.Enum["card", "cash"] = "cash"
    note: str | None = None
    pair: tuple[int, str] = (0, "")
    home: Place | None = None
    last: ps.Ring[ps.int32, 3]
    places: ps.List[Place]
    by_kind: ps.Map[ps.Enum["card", "cash"], int]
    seen: ps.Set[int]
    idle: ps.Timer


def add(r: Payment, s: Account, out: ps.Out[Balance]):
    s.total += r.cents
    s.kind = r.kind
    s.last.append(r.cents)
    s.by_kind[r.kind] = s.by_kind.get(r.kind, 0) + 1
    s.seen.add(r.cents)
    s.idle = r.at
    out.emit(Balance(r.account, s.total))


def idle(t: ps.Time, key, s: Account, out: ps.Out[Balance]):
    s.note = f"{key.account} idle at {t}"


def job(params):
    job = ps.Job()
    payments = job.source("payments", ps.parquet(params["folder"] + "/in"), event_time="at").key_by("account")
    payments.process("add", add, on_timer={"idle": idle}).sink("output", ps.parquet(params["folder"] + "/out"))
    return job
"""
JOB = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: accounts}}
spec:
  replicas: 2
  job: {{entrypoint: "typed_accounts:job", parameters: {{folder: "{folder}"}}}}
"""
FIRST = (
    "concat('account-', id) as account",
    "id * 3 - 1000 as total",
    "if(id % 2 = 0, 'card', 'cash') as kind",
    "if(id % 4 = 0, null, concat('note ', id)) as note",
    "named_struct('_1', id, '_2', cast(id as string)) as pair",
    "if(id % 3 = 0, null, named_struct('name', concat('home ', id), 'floor', int(null))) as home",
    "transform(sequence(1, int(id % 4)), x -> int(x + id)) as last",
    "if(id % 5 = 0, array(), array(named_struct('name', 'here', 'floor', int(id)))) as places",
    "if(id % 2 = 0, map('card', id), map('cash', 2L, 'card', 1L)) as by_kind",
    "array_distinct(array(id, id % 10)) as seen",
    "if(id % 7 = 0, null, timestamp_micros(id)) as idle",
    "cast(pmod(xxhash64(concat('account-', id)), 256) as int) as key_group",
)


def payments() -> list[dict[str, Any]]:
    return [
        {"account": f"account-{i * 7 % (KEYS + NEW)}", "kind": "cash" if i % 3 else "card", "cents": i % 101, "at": i}
        for i in range(ROWS)
    ]


def expected(account: str, stored: dict[str, Any] | None, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the state of an account that began as ``stored``, after ``rows`` and the timer of the last one."""
    state: dict[str, Any] = {
        **{"total": 0, "kind": "cash", "note": None, "pair": (0, ""), "home": None},
        **{"last": [], "places": [], "by_kind": {}, "seen": set(), "idle": None},
    } | (stored or {})
    for row in rows:
        state["total"] += row["cents"]
        state["kind"], state["idle"] = row["kind"], row["at"]
        state["last"] = [*state["last"], row["cents"]]
        state["by_kind"][row["kind"]] = state["by_kind"].get(row["kind"], 0) + 1
        state["seen"].add(row["cents"])
    state["last"] = state["last"][-3:]
    if state["idle"] is not None:
        state["note"], state["idle"] = f"{account} idle at {state['idle']}", None
    return state


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row that Arrow has read as values that compare."""
    row["pair"] = tuple(row["pair"].values())
    row["by_kind"] = dict(row["by_kind"])
    row["seen"] = set(row["seen"])
    return row


def states_in(folder: Path) -> dict[str, dict[str, Any]]:
    table = pq.read_table(folder)
    idle = table.schema.get_field_index("idle")
    table = table.set_column(idle, "idle", table["idle"].cast(pa.timestamp("us")).cast(pa.int64()))
    rows = table.drop_columns(["key_group"]).to_pylist()
    return {row.pop("account"): plain(row) for row in rows}


def test_spark_makes_and_reads_the_state_of_a_function_with_types(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "typed_accounts.py").write_text(MODULE)
    (tmp_path / "job.yaml").write_text(JOB.format(folder=tmp_path))
    rows = payments()
    (tmp_path / "in").mkdir()
    schema = pa.schema({"account": pa.string(), "kind": pa.string(), "cents": pa.int64(), "at": pa.timestamp("us")})
    pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "in" / "part-0.parquet")
    spark.range(KEYS).selectExpr(*FIRST).repartition(3).write.parquet(str(tmp_path / "first"))

    job, where = str(tmp_path / "job.yaml"), ("--dir", str(tmp_path / "state"))
    made = penstock("savepoint", "import", job, f"add={tmp_path / 'first'}", "--to", str(tmp_path / "made"))
    assert made.returncode == 0, made.stderr
    ran = penstock("run", job, *where, "--restore", str(tmp_path / "made"))
    assert ran.returncode == 0, ran.stderr
    exported = penstock("savepoint", "export", job, "latest", str(tmp_path / "last"), *where)
    assert exported.returncode == 0, exported.stderr

    first = states_in(tmp_path / "first")
    of_key: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        of_key.setdefault(row["account"], []).append(row)
    wanted = {key: expected(key, first.get(key), of_key.get(key, [])) for key in {*first, *of_key}}
    found = spark.read.parquet(str(tmp_path / "last" / "add"))
    assert found.where("key_group != pmod(xxhash64(account), 256)").count() == 0
    assert found.count() == len(wanted)
    sizes = found.selectExpr("account", "size(places) + size(by_kind) + size(seen) as entries").collect()
    assert Counter(tuple(row) for row in sizes) == Counter(
        (key, sum(len(state[name]) for name in ("places", "by_kind", "seen"))) for key, state in wanted.items()
    )
    assert states_in(tmp_path / "last" / "add") == wanted
