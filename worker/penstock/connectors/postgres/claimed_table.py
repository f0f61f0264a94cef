"""What has to be before a job writes to a table: the table, rights, the key, and a table of markers beside it."""

from collections.abc import Sequence

import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.connectors.missing import NotThere
from penstock.connectors.postgres.client import PostgresDatabase, PostgresSession
from penstock.connectors.postgres.column_checks import TableColumn, staged_as
from penstock.connectors.postgres.marked_table import TableName, quoted

CLAIM = "penstock-claim"
LOCK = 7_365_732_431  # of those who make the table of markers at once; any number that is ours
COLUMNS = """\
SELECT a.attname::text, format_type(a.atttypid, NULL), a.atttypmod, a.attnotnull,
       a.atthasdef OR a.attidentity <> '', a.attgenerated <> '' OR a.attidentity = 'a'
FROM pg_attribute a WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
TAKES_NO_ROWS = "SELECT relkind NOT IN ('r', 'p', 'v', 'f') FROM pg_class WHERE oid = to_regclass($1)"
KEYS = """\
SELECT i.indexrelid::bigint, a.attname::text, i.indnkeyatts::bigint,
       EXISTS (SELECT FROM pg_collation c WHERE c.oid = ANY (i.indcollation) AND NOT c.collisdeterministic)
FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1])
WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL"""
MARKERS = """\
CREATE TABLE IF NOT EXISTS {epochs} (target text, job text, sink text, task text, epoch bigint NOT NULL,\
 digest text NOT NULL, blocks bigint NOT NULL, at timestamptz NOT NULL DEFAULT now(),\
 PRIMARY KEY (target, job, sink, task))"""


def prepare_table(
    database: PostgresDatabase, table: TableName, rows: pa.Schema, keys: Sequence[str]
) -> list[TableColumn]:
    """Return the columns of the table; make the table of markers when it is not there. Blocking.

    Raises ConfigError with the statement that mends it, NotThere when there is no table, StorageError when a retry may
    help.
    """
    about = f"postgres sink: table {table.text}"
    with database.session(CLAIM, about) as session:
        check_schema(session, table, about)
        columns = [TableColumn(*row) for row in session.run(COLUMNS, table.sql)]
        if not columns:
            raise NotThere(f"{about}: there is none in {database.place}: {_statement(table, rows, keys)}")
        if session.run(TAKES_NO_ROWS, table.sql) == [(True,)]:
            raise ConfigError(f"{about}: it is no table and no view: correct `table`")
        _check_key(session, table, keys, about)
        _make_markers(session, table, about)
        _check_rights(session, table, keys, about)
        return columns


def check_schema(session: PostgresSession, table: TableName, about: str) -> None:
    """Look whether the job's user may use the schema of the table. Raises ConfigError with the statement that mends it.

    Without this right, the server refuses to say whether the table is there.
    """
    usage = "SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = $1"
    if session.run(usage, table.schema) == [(False,)]:
        raise ConfigError(
            f"{about}: the job's user lacks rights: GRANT USAGE ON SCHEMA {quoted(table.schema)} TO {user_of(session)}"
        )


def user_of(session: PostgresSession) -> str:
    """Return the job's user, as a statement names it."""
    return quoted(session.run("SELECT current_user::text")[0][0])


def _statement(table: TableName, rows: pa.Schema, keys: Sequence[str]) -> str:
    columns = [f"{quoted(f.name)} {staged_as(f).sql}" for f in rows]
    key = [f"PRIMARY KEY ({', '.join(map(quoted, keys))})"] if keys else []
    return f"CREATE TABLE {table.sql} ({', '.join([*columns, *key])})"


def _check_key(session: PostgresSession, table: TableName, keys: Sequence[str], about: str) -> None:
    if not keys:
        return
    indexes: dict[int, set[str]] = {}
    about_index: dict[int, tuple[int, bool]] = {}
    for index, column, size, takes_others in session.run(KEYS, table.sql):
        indexes.setdefault(index, set()).add(column)
        about_index[index] = (size, takes_others)
    of_keys = [about_index[n] for n, names in indexes.items() if names == set(keys) and about_index[n][0] == len(keys)]
    if not of_keys:
        names = ", ".join(map(quoted, keys))
        raise ConfigError(
            f"{about}: keyColumns is {', '.join(keys)}, and no unique index has just these columns:"
            f" CREATE UNIQUE INDEX ON {table.sql} ({names})"
        )
    if any(takes_others for _, takes_others in of_keys):
        raise ConfigError(
            f"{about}: keyColumns is {', '.join(keys)}, and their unique index has a nondeterministic collation, by"
            " which different texts are equal, and the job takes them for different keys; make the index with another"
            ' collation in its place, like COLLATE "C", and make one text of such keys in a step before'
        )


def _make_markers(session: PostgresSession, table: TableName, about: str) -> None:
    if session.run("SELECT to_regclass($1) IS NULL", table.epochs)[0][0]:
        schema = table.epochs.rpartition(".")[0]
        make = MARKERS.format(epochs=table.epochs)
        if not session.run("SELECT has_schema_privilege(current_user, $1, 'CREATE')", schema.strip('"'))[0][0]:
            raise ConfigError(
                f"{about}: the job's user may not make the table of markers in schema {schema}; as its owner: {make};"
                f" GRANT SELECT, INSERT, UPDATE ON {table.epochs} TO {user_of(session)}"
            )
        with session.transaction():
            session.run(f"SELECT pg_advisory_xact_lock({LOCK})")
            session.run(make)


def _check_rights(session: PostgresSession, table: TableName, keys: Sequence[str], about: str) -> None:
    wanted = {table.sql: ("INSERT", "SELECT", "UPDATE") if keys else ("INSERT",)}
    wanted[table.epochs] = ("INSERT", "SELECT", "UPDATE")
    for name, rights in wanted.items():
        missing = [
            right for right in rights if not session.run("SELECT has_table_privilege($1, $2)", name, right)[0][0]
        ]
        if missing:
            raise ConfigError(
                f"{about}: the job's user lacks rights: GRANT {', '.join(missing)} ON {name} TO {user_of(session)}"
            )
    if not session.run("SELECT has_database_privilege(current_database(), 'TEMPORARY')")[0][0]:
        database = quoted(session.run("SELECT current_database()::text")[0][0])
        raise ConfigError(
            f"{about}: the job's user may make no temporary table: GRANT TEMPORARY ON DATABASE {database}"
        )
