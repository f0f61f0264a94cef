"""Lookups against a real server: what it finds, what it refuses, and a job through kills while the server restarts."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.base.errors import ConfigError, StateError, StorageError
from tests.integration.command_job import running
from tests.integration.local_job import wait_until
from tests.support.postgres import PASSWORD, PASSWORD_VARIABLE, Postgres

COLUMNS = {"price": "decimal128(12, 2)", "stock": "int64", "at": "timestamp[us, tz=UTC]"}
TABLE = "sku text PRIMARY KEY, price numeric(10,2), stock integer, at timestamptz, name varchar(9)"
ITEMS = ["x\0y", "a", "b", "gone", None, "a", "", "b"]  # the first one can be in no table


@pytest.fixture
def prices(postgres: Postgres) -> str:
    table = postgres.table(TABLE, "prices")
    postgres.run(f"INSERT INTO {table} VALUES ('a', 1.5, 3, '2026-01-01 00:00+00'), ('b', 2.25, NULL, NULL)")
    return table


def found(postgres: Postgres, table: str, items: list[str | None] = ITEMS, **options: Any) -> list[dict[str, Any]]:
    job = ps.Job()
    rows = job.source("rows", ps.parquet("x"), columns={"n": "int64", "item": "string"})
    target = ps.postgres(table, uri=postgres.server.uri, password=f"env:{PASSWORD_VARIABLE}")
    given = {"on": {"item": "sku"}, "columns": COLUMNS, **options}
    rows.lookup("prices", target, **given).sink("out", ps.parquet("o"))
    given_rows = [{"n": n, "item": item} for n, item in enumerate(items)]
    result = job.run(inputs={"rows": given_rows}, collect=True)
    return sorted(result["out"], key=lambda row: row["n"])


@pytest.mark.parametrize("cache", [None, ps.cache(1, ttl="1m"), ps.cache(100)])
def test_rows_leave_with_their_row_of_the_table_once(postgres: Postgres, prices: str, cache: Any) -> None:
    every = found(postgres, prices, how="left", cache=cache, batch=2)
    assert [(row["n"], str(row["price"]), row["stock"]) for row in every] == [
        (0, "None", None), (1, "1.50", 3), (2, "2.25", None), (3, "None", None), (4, "None", None), (5, "1.50", 3),
        (6, "None", None), (7, "2.25", None),
    ]  # fmt: skip
    assert str(every[1]["at"]) == "2026-01-01 00:00:00+00:00"
    assert [row["n"] for row in found(postgres, prices, cache=cache)] == [1, 2, 5, 7]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"columns": {"price": "double"}}, "column 'price' is numeric, the job has double: .* declare decimal128"),
        ({"columns": {"price": "int64"}}, "column 'price' is numeric, the job has int64: it has to be .*bigint"),
        ({"columns": {"stock": "int16"}}, "column 'stock' is integer, the job has int16"),
        ({"columns": {"prize": "double"}}, "did you mean 'price'"),
        ({"on": {"item": "name"}}, r"no unique index has only columns of `on` \(name\): CREATE UNIQUE INDEX ON"),
        ({"on": {"n": "sku"}}, "column 'sku' is text, the job has int64"),
    ],
)
def test_a_table_that_is_not_as_declared_is_refused_with_a_remedy(
    postgres: Postgres, prices: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        found(postgres, prices, **options)


@pytest.mark.parametrize(
    ("kind", "declared"),
    [("date", "date32"), ("timestamp", "timestamp[us]"), ("timestamptz", "timestamp[us, tz=UTC]")],
)
def test_a_time_that_no_column_holds_is_an_error(postgres: Postgres, kind: str, declared: str) -> None:
    table = postgres.table(f"sku text PRIMARY KEY, at {kind}", "times")
    postgres.run(f"INSERT INTO {table} VALUES ('a', '2026-01-02'), ('b', NULL), ('', '0001-01-02')")
    known = [row["at"] and row["at"].isoformat()[:10] for row in found(postgres, table, columns={"at": declared})]
    assert known == ["2026-01-02", None, "2026-01-02", "0001-01-02", None]
    for outside in ("infinity", "-infinity", *(["294276-12-31"] if kind != "date" else [])):
        postgres.run(f"UPDATE {table} SET at = '{outside}' WHERE sku = 'a'")
        with pytest.raises(StateError, match="a time is infinity, or in 294247 or later"):
            found(postgres, table, columns={"at": declared})


def test_a_unique_index_has_to_have_no_other_columns(postgres: Postgres) -> None:
    table = postgres.table("sku text, stock integer, PRIMARY KEY (sku, stock)", "prices")
    with pytest.raises(ConfigError, match=r"no unique index has only columns of `on` \(sku\)"):
        found(postgres, table, columns={"stock": "int64"})
    postgres.run(f"CREATE UNIQUE INDEX ON {table} (sku)")
    postgres.run(f"INSERT INTO {table} VALUES ('a', 5)")
    assert [row["stock"] for row in found(postgres, table, columns={"stock": "int64"})] == [5, 5]


def test_a_table_right_or_password_that_is_missing_is_named(
    postgres: Postgres, prices: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"there is none in 127\.0\.0\.1:.*: make it, or correct `table`"):
        found(postgres, f"{prices}_not")
    view = f"{prices}_twice"
    postgres.run(f"CREATE VIEW {view} AS SELECT * FROM {prices} UNION ALL SELECT * FROM {prices}")
    with pytest.raises(StateError, match=r"the table has several rows with sku = '[ab]': name columns in `on`"):
        found(postgres, view)
    monkeypatch.setenv(PASSWORD_VARIABLE, "wrong-one")
    with pytest.raises(StorageError, match="correct `uri` and `password`") as told:
        found(postgres, prices)
    assert "wrong-one" not in str(told.value)


def test_many_keys_are_read_by_the_index(postgres: Postgres) -> None:
    table = postgres.table("sku text PRIMARY KEY, stock integer", "prices")
    postgres.run(f"INSERT INTO {table} SELECT 'item ' || n, n FROM generate_series(1, 50000) n")
    postgres.run(f"ANALYZE {table}")
    scans = "SELECT idx_scan, seq_scan FROM pg_stat_user_tables WHERE relname = $1"
    before = postgres.run(scans, table)
    items: list[str | None] = [f"item {n}" for n in range(1, 1_001)]
    assert len(found(postgres, table, items, columns={"stock": "int64"})) == 1_000
    wait_until(lambda: postgres.run(scans, table) != before)  # the server counts a moment later
    assert postgres.run(scans, table) == [(before[0][0] + 1_000, before[0][1])]


def test_what_has_no_index_on_the_keys_is_read_too(postgres: Postgres, prices: str) -> None:
    view = f"{prices}_in_capitals"
    postgres.run(f"CREATE VIEW {view} AS SELECT upper(sku) AS sku, stock FROM {prices}")
    every = found(postgres, view, ["A", "a", "B"], columns={"stock": "int64"})
    assert [(row["n"], row["stock"]) for row in every] == [(0, 3), (2, None)]


def test_rows_are_looked_up_exactly_once_while_engines_and_the_server_are_killed(
    postgres: Postgres, prices: str, tmp_path: Path
) -> None:
    table = postgres.table("id bigint PRIMARY KEY, price bigint", "prices")
    postgres.run(f"INSERT INTO {table} SELECT i, i * 7 FROM generate_series(0, 40) i WHERE i % 5 <> 0")
    (tmp_path / "in").mkdir()
    rows = [{"n": n, "item": n * 13 % 41} for n in range(3000)]
    for file in range(3):
        pq.write_table(pa.Table.from_pylist(rows[file::3]), tmp_path / "in" / f"{file}.parquet")

    def job_file(rate: int) -> str:
        return f"""\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: prices}}
spec:
  replicas: 2
  checkpoint: {{interval: 500ms}}
  job:
    graph:
      steps:
        - name: rows
          source: {{parquet: {{path: in, rate: {rate}}}}}
        - name: prices
          keyBy: [item]
          lookup:
            postgres: {{uri: "{postgres.server.uri}", table: {table}, password: "env:{PASSWORD_VARIABLE}"}}
            keys: [id]
            columns: [{{name: price, type: int64}}]
            how: left
            batch: 20
            cache: {{rows: 20, ttl: 200ms}}
        - {{name: out, sink: {{parquet: {{path: out}}}}}}
"""

    with running(tmp_path, "prices", job_file(rate=20)) as job:
        job.until(lambda: any((tmp_path / "out").rglob("*.parquet")))
        postgres.server.kill()
        job.until(lambda: any("no connection to" in step.because for step in job.status().steps))
        job.kill(0)
        postgres.server.start()
        job.rescale(3)
        job.kill(1)
        job.rescale(2)
        job.finish_at_full_rate(job_file(rate=0))
    written = pq.read_table(tmp_path / "out").to_pylist()
    due = Counter((r["n"], r["item"], r["item"] * 7 if r["item"] % 5 else None) for r in rows)
    assert Counter((r["n"], r["item"], r["price"]) for r in written) == due
    left = [path for path in tmp_path.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
    assert left == [], "the password is in what the job has left"
