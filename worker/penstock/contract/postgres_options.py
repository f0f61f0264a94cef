"""The options of the PostgreSQL sink and lookup."""

from dataclasses import dataclass
from typing import Annotated

from penstock.contract.schema import Field, Fields, LongText, SecretPlace

URI_RULE = "postgresql://user@host:5432/database without a password: give `password`, which says where it is"
_SETTING = r"([a-oqrt-z]|ssl[a-oq-z])[^=&#]*(=[^&#]*)?"  # not password, passfile and sslpassword
_NAME = r"[A-Za-z_][A-Za-z0-9_$]*"
Uri = Annotated[
    LongText,
    Field(
        "uri",
        "the database as postgresql://user@host:5432/database; behind ? settings of TLS, like sslmode=verify-full",
        pattern=rf"postgres(ql)?://([^/?#@:]+@)?[^/?#@]*(/[^/?#@]*)?(\?({_SETTING}(&{_SETTING})*)?)?",
        rule=URI_RULE,
        secret=True,
    ),
]
Table = Annotated[
    str,
    Field(
        "table",
        "the table, with its schema in front if it is another than public",
        pattern=rf"({_NAME}\.)?{_NAME}",
        rule="table or schema.table, of letters, digits and _",
    ),
]
Password = Annotated[
    SecretPlace | None,
    Field(
        "password",
        "where the password is: secret:NAME/KEY (a Secret of Kubernetes), env:NAME or file:/PATH; read"
        " for each connection. Without it as libpq does: PGPASSWORD, ~/.pgpass",
    ),
]


@dataclass(frozen=True, slots=True)
class PostgresLookup(Fields):
    """Options of the PostgreSQL lookup."""

    uri: Uri
    table: Table
    password: Password = None


@dataclass(frozen=True, slots=True)
class PostgresOutput(Fields):
    """Options of the PostgreSQL sink."""

    uri: Uri
    table: Table
    key_columns: Annotated[
        str | None,
        Field(
            "keyColumns",
            "columns with commas between: a row takes the place of the one with the same values in them (upsert)."
            " Without it every row is added",
            pattern=r"[^,]+(,[^,]+)*",
            rule="names with commas between",
        ),
    ] = None
    password: Password = None
