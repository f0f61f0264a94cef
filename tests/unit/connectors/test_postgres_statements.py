"""What the PostgreSQL sink says to a server, and the values that it refuses before."""

import pyarrow as pa
import pytest
from adbc_driver_manager import AdbcStatusCode

from penstock.base.errors import ConfigError, StateError, StorageError, is_storage_away
from penstock.connectors.postgres.client import LockHeld, PostgresDatabase, not_connected, problem
from penstock.connectors.postgres.column_checks import TableColumn, checks_of, staged_schema
from penstock.connectors.postgres.marked_table import Statements, TableName
from penstock.contract.postgres_options import PostgresOutput

COLUMNS = {"word": "text", "n": "bigint"}


def test_rows_are_added_in_order_or_take_the_place_of_those_with_their_key() -> None:
    added = Statements.of(TableName("words"), COLUMNS, ())
    assert added.insert_between(2, 5) == (
        'INSERT INTO "public"."words" ("word", "n") SELECT "word", "n" FROM pg_temp.penstock_rows'
        " WHERE penstock_number >= 2 AND penstock_number < 5 ORDER BY penstock_number"
    )
    placed = Statements.of(TableName("a.words"), COLUMNS, ("word",))
    assert placed.insert_between(0, 1) == (
        'INSERT INTO "a"."words" ("word", "n") SELECT DISTINCT ON ("word") "word", "n" FROM pg_temp.penstock_rows'
        " WHERE penstock_number >= 0 AND penstock_number < 1"
        ' ORDER BY "word", penstock_number DESC ON CONFLICT ("word") DO UPDATE SET "n" = EXCLUDED."n"'
    )
    assert TableName("a.words").epochs == '"a".penstock_epochs'


class Refusal(Exception):
    """An error of the client."""

    def __init__(self, state: str, status: int = 10, said: str = "said") -> None:
        super().__init__(said)
        self.sqlstate = state
        self.status_code = status


@pytest.mark.parametrize(
    ("state", "kind", "said"),
    [
        ("55P03", LockHeld, "another session holds a lock"),
        ("57P01", StorageError, r"said \(57P01\)"),
        ("", StorageError, r"said \(no answer\)"),
        ("42501", StorageError, "a right is missing: said: grant it"),
        ("23505", StateError, "the table refuses a row: said"),
        ("54000", StateError, "the table refuses a row: said"),
        ("38000", StateError, "the table refuses a row: said"),
        ("ABC01", StateError, "the table refuses a row: said"),
        ("25006", StorageError, "takes no writes now: said: name the primary in `uri`, or let the user of `uri` write"),
        ("53100", StorageError, r"said \(53100\)"),
        ("42703", StateError, "the table is another than at the start: said: bring it back as it was and start"),
    ],
)
def test_an_error_says_what_a_job_does_about_it(state: str, kind: type[Exception], said: str) -> None:
    found = problem("sink", Refusal(state))
    assert type(found) is kind
    with pytest.raises(kind, match=said):
        raise found


def test_the_servers_answer_is_told_without_the_statement() -> None:
    said = """NOT_FOUND: [libpq] Failed to execute query 'INSERT INTO "a"."words" ("n") SELECT 'x': ERROR:  relation
    "a.words" does not exist
    LINE 1: INSERT INTO "a"."words" ("n") SELE...
                        ^
    . SQLSTATE: 42P01"""
    told = str(problem("sink", Refusal("42P01", said=said)))
    why = 'the table is not there: relation "a.words" does not exist. SQLSTATE: 42P01: bring it back'
    assert told.startswith(f"sink: {why}")


def test_a_row_that_a_policy_refuses_is_no_missing_right() -> None:
    refusal = Refusal("42501", said='new row violates row-level security policy for table "words"')
    assert "the table refuses a row: new row violates" in str(problem("sink", refusal))


def test_the_name_of_the_clients_function_is_not_told() -> None:
    said = "INVALID_STATE: [libpq] Failed to execute prepared statement: PGRES_FATAL_ERROR ERROR:  no. SQLSTATE: 40P01"
    assert str(problem("sink", Refusal("40P01", said=said))) == "sink: no. SQLSTATE: 40P01 (40P01)"


def test_a_wrong_use_of_the_client_is_not_tried_again_without_end() -> None:
    misused = problem("sink", Refusal("", int(AdbcStatusCode.INVALID_ARGUMENT)))
    assert not is_storage_away(misused)
    assert "report it" in str(misused)
    assert is_storage_away(problem("sink", Refusal("08006", int(AdbcStatusCode.INVALID_ARGUMENT))))


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ('FATAL: too many connections for role "shop"', "ALTER ROLE <user> CONNECTION LIMIT, or run fewer workers"),
        ('FATAL: too many connections for database "shop"', "ALTER DATABASE <database> CONNECTION LIMIT, or run fewer"),
        ("FATAL: sorry, too many clients already", "raise max_connections, or run fewer workers"),
        ("FATAL: remaining connection slots are reserved for roles with the SUPERUSER attribute", "max_connections"),
        ('FATAL: database "shop" is not currently accepting connections', "ALTER DATABASE <database> ALLOW_CONN"),
        ('FATAL: role "shop" does not exist', "correct the user in `uri`, or make it"),
        ('FATAL: database "shop" does not exist', "correct the database in `uri`, or make it"),
        ("failed: session is read-only", "its servers take no writes now"),
    ],
)
def test_a_connection_that_is_not_made_says_what_helps(said: str, remedy: str) -> None:
    assert remedy in str(not_connected("sink", "db:5432/shop", said))


@pytest.mark.parametrize(
    ("host", "place"),
    [
        ("writer@db", "db:5432"),
        ("a:1,b", "a:1,b:5432"),
        ("u@[::1]:5433", "[::1]:5433"),
        ("", "localhost:5432"),
        ("%2Ftmp", "%2Ftmp:5432"),
    ],
)
def test_an_address_may_name_several_hosts(host: str, place: str) -> None:
    assert PostgresDatabase(PostgresOutput(f"postgresql://{host}/shop", "t")).place == f"{place}/shop"


@pytest.mark.parametrize("host", ["db:abc", "db:0", "a:1,b:70000", "::1", "[::1"])
def test_a_port_that_is_none_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match=r"postgres: uri: .* is no host, or host:port"):
        PostgresDatabase(PostgresOutput(f"postgresql://u@{host}/shop", "t"))


def test_a_type_or_a_setting_that_is_not_known_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"column 'x' is list<.*: it takes whole numbers"):
        staged_schema(pa.schema([("x", pa.list_(pa.int64()))]))
    with pytest.raises(ConfigError, match="unknown setting 'sslmod': did you mean 'sslmode'"):
        PostgresDatabase(PostgresOutput("postgresql://db/x?sslmod=require", "t"))


def test_the_key_and_what_is_not_null_takes_no_null() -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.string()), ("w", pa.date32())])
    columns = [
        TableColumn("k", "integer", -1, not_null=False, filled=False, generated=False),
        TableColumn("v", "text", -1, not_null=True, filled=False, generated=False),
        TableColumn("w", "date", -1, not_null=False, filled=False, generated=False),
    ]
    key, text, day = checks_of(schema, "t", columns, ("k",))
    nothing = pa.nulls(1, pa.int64())
    assert key(nothing) == "null, and the table takes none"
    assert text(pa.nulls(1, pa.string())) == "null, and the table takes none"
    assert day(pa.nulls(1, pa.date32())) is None
    assert "it has to be from" in (day(pa.array([-(2**31)], pa.int32()).view(pa.date32())) or "")
