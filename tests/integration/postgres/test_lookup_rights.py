"""Rights that a lookup lacks: each is named with its remedy; one that is taken away later is waited for."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.connectors.postgres.postgres_lookup import PostgresRows, PostgresTable
from penstock.contract.postgres_options import PostgresLookup
from tests.integration.command_job import RunningJob, running
from tests.support.postgres import PASSWORD_VARIABLE, Postgres, TableUser

KEYS, COLUMNS = pa.schema({"word": pa.string()}), pa.schema({"price": pa.int64()})
WORDS, ROWS = "abcde", 900


@pytest.fixture
def reader(postgres: Postgres) -> Iterator[TableUser]:
    made = TableUser(postgres, "word text PRIMARY KEY, price bigint, secret text")
    for price, word in enumerate(WORDS):
        postgres.run(f"INSERT INTO {made.table} VALUES ($1, $2, 'x')", word, price)
    yield made
    made.drop()


def connected(reader: TableUser) -> PostgresRows:
    options = PostgresLookup(reader.uri, reader.table, f"env:{PASSWORD_VARIABLE}")
    return PostgresTable(options).connect(KEYS, COLUMNS)


def test_each_right_that_is_missing_is_named_with_the_statement_that_grants_it(reader: TableUser) -> None:
    name = reader.name
    lacks = rf"postgres lookup: table {name}\.words: the job's user lacks rights: GRANT"
    with pytest.raises(ConfigError, match=rf'{lacks} USAGE ON SCHEMA "{name}" TO "{name}"$'):
        connected(reader)
    reader.grant(f"USAGE ON SCHEMA {name}")
    with pytest.raises(ConfigError, match=rf'{lacks} SELECT \("word", "price"\) ON "{name}"."words" TO "{name}"$'):
        connected(reader)
    reader.grant(f"SELECT (word) ON {reader.table}")
    with pytest.raises(ConfigError, match=rf'{lacks} SELECT \("price"\) ON "{name}"."words" TO "{name}"$'):
        connected(reader)
    reader.grant(f"SELECT (price) ON {reader.table}")
    connection = connected(reader)
    assert connection.find(pa.record_batch({"word": ["c"]})).rows.to_pylist() == [{"price": 2}], "no more is needed"
    connection.close()


def test_in_one_process_a_missing_right_is_raised_with_step_and_remedy(reader: TableUser) -> None:
    job = ps.Job()
    rows = job.source("rows", ps.parquet("x"), columns={"word": "string"})
    table = ps.postgres(reader.table, uri=reader.uri, password=f"env:{PASSWORD_VARIABLE}")
    rows.lookup("prices", table, on="word", columns={"price": "int64"}).sink("out", ps.parquet("o"))
    with pytest.raises(ConfigError, match=rf'GRANT USAGE ON SCHEMA "{reader.name}" TO'):
        job.run(inputs={"rows": [{"word": "a"}]}, collect=True)


def job_file(reader: TableUser, folder: Path) -> str:
    (folder / "in").mkdir()
    rows = [{"n": n, "word": WORDS[n % len(WORDS)]} for n in range(ROWS)]
    pq.write_table(pa.Table.from_pylist(rows), folder / "in" / "rows.parquet")
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
          source: {{parquet: {{path: in, rate: 150}}}}
        - name: prices
          keyBy: [word]
          lookup:
            postgres: {{uri: "{reader.uri}", table: {reader.table}, password: "env:{PASSWORD_VARIABLE}"}}
            columns: [{{name: price, type: int64}}]
            batch: 20
        - {{name: out, sink: {{parquet: {{path: out}}}}}}
"""


def test_a_job_without_the_right_ends_with_the_remedy(reader: TableUser, tmp_path: Path) -> None:
    with running(tmp_path, "prices", job_file(reader, tmp_path)) as job:
        said = job.failed()
    assert f'GRANT USAGE ON SCHEMA "{reader.name}" TO "{reader.name}"' in said


def test_a_right_that_is_taken_away_is_waited_for_and_no_row_is_lost(reader: TableUser, tmp_path: Path) -> None:
    reader.grant(f"USAGE ON SCHEMA {reader.name}")
    reader.grant(f"SELECT ON {reader.table}")
    with running(tmp_path, "prices", job_file(reader, tmp_path)) as job:
        job.until(lambda: any((tmp_path / "out").rglob("*.parquet")))
        reader.revoke(f"SELECT ON {reader.table}")
        job.until(lambda: f'GRANT SELECT ("word", "price") ON "{reader.name}"."words"' in reasons(job))
        reader.revoke(f"USAGE ON SCHEMA {reader.name}")
        job.until(lambda: f'GRANT USAGE ON SCHEMA "{reader.name}"' in reasons(job))
        job.kill(1)  # what waits is in its checkpoint
        reader.grant(f"USAGE ON SCHEMA {reader.name}")
        reader.grant(f"SELECT ON {reader.table}")
        assert job.process.wait(120) == 0, (tmp_path / "log").read_text()
    written = Counter((row["n"], row["price"]) for row in pq.read_table(tmp_path / "out").to_pylist())
    assert written == Counter((n, n % len(WORDS)) for n in range(ROWS))


def reasons(job: RunningJob) -> str:
    return " ".join(step.because for step in job.status().steps)
