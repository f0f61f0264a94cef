"""Lookups in PostgreSQL, and the sinks of PostgreSQL and of S3, each with one worker and a real server."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from adbc_driver_postgresql import dbapi

from bench.connectors import jobs
from bench.connectors.kafka import first_words, words
from bench.connectors.runs import Run
from bench.oracle import words_spec
from penstock.base.values import replace
from penstock.connectors.generator import dictionary
from tools.servers.postgres import PostgresServer
from tools.servers.s3 import S3Server

USER, PASSWORD = "penstock", "penstock"  # of servers that only this machine reaches, while they are measured
ENVIRONMENT = {"PGPASSWORD": PASSWORD, "AWS_ACCESS_KEY_ID": USER, "AWS_SECRET_ACCESS_KEY": PASSWORD}
LOOKED_UP_KEYS = 100_000
UPSERTED_KEYS = 1_000_000  # nearly every row of a checkpoint is another key


class Postgres(PostgresServer):
    """A server as it is operated: the one of the tests has little memory, and checkpoints all the time."""

    settings: Mapping[str, str] = {"max_connections": "50", "shared_buffers": "1GB", "max_wal_size": "4GB"}


class Store(S3Server):
    """A server as it is operated: the one of the tests has a small heap, and no optimizing compiler."""

    memory = ("-Xmx1g", "-XX:+UseG1GC", "-XX:-UsePerfData")

    def objects(self, bucket: str) -> list[Path]:
        """List the files that are objects of Parquet."""
        return sorted((self._data / bucket).rglob("*.parquet"))


class Table:
    """The tables of a server, as psql would see them."""

    def __init__(self, server: PostgresServer) -> None:
        """Connect to ``server``, which runs."""
        self.server = server
        self._session = dbapi.connect(server.uri.replace("@", f":{PASSWORD}@"), autocommit=True)

    def run(self, sql: str) -> list[tuple[object, ...]]:
        """Run a statement, and return its rows."""
        with self._session.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def written(self, table: str) -> int:
        """Return how many rows were added or replaced, as the server's statistics say."""
        found = self.run(f"SELECT n_tup_ins + n_tup_upd FROM pg_stat_user_tables WHERE relname = '{table}'")
        return int(str(found[0][0])) if found else 0

    def fill(self, table: str, rows: pa.Table, key: str) -> None:
        """Make a table of these rows in the place of the one before."""
        self.run(f"DROP TABLE IF EXISTS {table}")
        with self._session.cursor() as cursor:
            cursor.adbc_ingest(table, rows, mode="create")
        self.run(f"ALTER TABLE {table} ADD PRIMARY KEY ({key})")
        self.run(f"ANALYZE {table}")

    def close(self) -> None:
        """End the connection."""
        self._session.close()


def append(table: Table, rows: int) -> Run:
    """Add every word to a table without a key."""
    name = "words"
    table.run(f"CREATE TABLE {name} (word text NOT NULL)")

    def check(_: Path) -> list[str]:
        found = {str(word): int(str(n)) for word, n in table.run(f"SELECT word, count(*) FROM {name} GROUP BY 1")}
        return first_words(rows, found)

    steps = [jobs.generated(rows), jobs.to("postgres", uri=table.server.uri, table=name, password="env:PGPASSWORD")]
    return _into_table("append", table, name, (rows, steps), check)


def upsert(table: Table, rows: int) -> Run:
    """Put the count of each word into the row of the word."""
    name = "counts"
    table.run(f"CREATE TABLE {name} (word text PRIMARY KEY, count bigint NOT NULL)")

    def check(_: Path) -> list[str]:
        found = {str(word): int(str(n)) for word, n in table.run(f"SELECT word, count FROM {name}")}
        return first_words(rows, found, UPSERTED_KEYS)

    to = {"uri": table.server.uri, "table": name, "keyColumns": "word", "password": "env:PGPASSWORD"}
    steps = [jobs.generated(rows, keys=UPSERTED_KEYS), jobs.counts(), jobs.to("postgres", **to)]
    return _into_table("upsert", table, name, (rows, steps), check)


def _into_table(
    what: str, table: Table, name: str, job: tuple[int, list[jobs.Step]], check: Callable[[Path], list[str]]
) -> Run:
    rows, steps = job
    return Run(
        f"postgres {what}",
        rows,
        table.server.pid,
        lambda folder: jobs.running(folder, steps, environment=ENVIRONMENT),
        lambda _: table.written(name),
        check,
        ends=True,
        whole=True,
    )


def lookup(table: Table, rows: int, *, cached: bool) -> Run:
    """Look up the number of each word in a table. ``cached``: a task remembers half of the words."""
    name, known = "numbers", dict[Path, int]()
    spelt = dictionary(words_spec(replace(words(rows), keys=LOOKED_UP_KEYS)))
    table.fill(name, pa.table({"word": spelt, "number": pa.array(range(LOOKED_UP_KEYS), pa.int64())}), key="word")

    def check(folder: Path) -> list[str]:
        found = pq.read_table(folder / "out").group_by(["word", "number"]).aggregate([([], "count_all")]).to_pylist()
        numbers = {word: number for number, word in enumerate(spelt.to_pylist())}
        wrong = [row for row in found if numbers.get(row["word"]) != row["number"]]
        counted = first_words(rows, {row["word"]: row["count_all"] for row in found}, LOOKED_UP_KEYS)
        return [*(f"{row['word']} has number {row['number']}" for row in wrong[:3]), *counted]

    target = {"uri": table.server.uri, "table": name, "password": "env:PGPASSWORD"}
    options = {"cache": {"rows": LOOKED_UP_KEYS // 2, "ttl": "1h"}} if cached else {}
    looked_up = {"postgres": target, "columns": [{"name": "number", "type": "int64"}], **options}
    steps = [
        jobs.generated(rows, keys=LOOKED_UP_KEYS),
        {"name": "numbers", "keyBy": ["word"], "lookup": looked_up},
        jobs.to("parquet", path="out"),
    ]
    return Run(
        f"postgres lookup {'cached' if cached else 'asked'}",
        rows,
        table.server.pid,
        lambda folder: jobs.running(folder, steps, environment=ENVIRONMENT),
        lambda folder: _rows_of(sorted((folder / "out").rglob("*.parquet")), known),
        check,
        ends=True,
        whole=True,
    )


def _rows_of(files: Sequence[Path], known: dict[Path, int]) -> int:
    """Return how many rows the files have. ``known`` are those of files that were read before."""
    for file in files:
        if file not in known:
            known[file] = pq.read_metadata(file).num_rows
    return sum(known.values())


def parquet(store: Store, rows: int) -> Run:
    """Write every word to Parquet in a bucket."""
    bucket, known = "words", dict[Path, int]()
    url = store.bucket(bucket)

    def check(_: Path) -> list[str]:
        found = Counter[str]()
        for file in store.objects(bucket):
            values = pq.read_table(file).column("word").value_counts()
            found.update({row["values"]: row["counts"] for row in values.to_pylist()})
        return first_words(rows, found)

    steps = [jobs.generated(rows), jobs.to("s3", url=url, endpoint=store.endpoint)]
    return Run(
        "s3 parquet",
        rows,
        store.pid,
        lambda folder: jobs.running(folder, steps, environment=ENVIRONMENT),
        lambda _: _rows_of(store.objects(bucket), known),
        check,
        ends=True,
        whole=True,
    )
