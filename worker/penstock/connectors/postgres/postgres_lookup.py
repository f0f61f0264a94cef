"""A table of PostgreSQL that rows are looked up in: one statement for all keys of a query.

The keys are an array each, and the number of a key comes back with its row. So PostgreSQL alone says what is equal.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.errors import ConfigError, StateError, StorageError
from penstock.base.suggest import unknown
from penstock.connectors.postgres.claimed_table import COLUMNS, KEYS, check_schema, user_of
from penstock.connectors.postgres.client import PostgresDatabase, PostgresSession, library
from penstock.connectors.postgres.column_checks import DAYS, MICROSECONDS_MIN, TableColumn, staged_as
from penstock.connectors.postgres.marked_table import TableName, quoted
from penstock.contract.postgres_options import PostgresLookup
from penstock.ports import Found

NAME = "penstock-lookup"
# By default the planner takes a page at random for four times as dear as the next one, as on a disk. So for 1,000 keys
# it reads all 100,000 rows of a table in memory: 20 to 34 ms, by the index 5 to 7 ms. What has no index on the keys,
# like some views, is read as before. With `enable_seqscan = off` the server would compile (JIT) such a query each
# time: 130 ms, not 14.
BY_INDEX = "SELECT set_config('random_page_cost', current_setting('seq_page_cost'), false)"
VIEWS = "SELECT relkind IN ('v', 'm', 'f') FROM pg_class WHERE oid = to_regclass($1)"
TEXTS = ("text", "character varying", "character", "uuid", "json", "jsonb")
TIMES_END = "294247-01-01"  # microseconds since 1970 end in this year; those of PostgreSQL, since 2000, end later
NUMBERS = {"smallint": 16, "integer": 32, "bigint": 64}


class PostgresTable:
    """A table, and how to connect to it."""

    def __init__(self, options: PostgresLookup) -> None:
        """Connect nothing yet. Raises ConfigError when the client is missing, or ``uri`` is wrong."""
        library()
        self._database, self._table = PostgresDatabase(options), TableName(options.table)
        self._about = f"postgres lookup: table {options.table}"

    def connect(self, keys: pa.Schema, columns: pa.Schema) -> "PostgresRows":
        """Connect, and check the table. Raises ConfigError with what mends it, StorageError."""
        ending = ExitStack()
        with ExitStack() as opening:
            session = opening.enter_context(self._database.session(NAME, self._about))
            self._check(session, keys, columns)
            session.run(BY_INDEX)
            ending = opening.pop_all()
        return PostgresRows(ending, session, self._table, (keys, columns), self._about)

    def _check(self, session: PostgresSession, keys: pa.Schema, columns: pa.Schema) -> None:
        check_schema(session, self._table, self._about)
        found = {row[0]: TableColumn(*row) for row in session.run(COLUMNS, self._table.sql)}
        if not found:
            raise ConfigError(f"{self._about}: there is none in {self._database.place}: make it, or correct `table`")
        for name in (*keys.names, *columns.names):
            if name not in found:
                raise ConfigError(f"{self._about}: {unknown('column', name, found)}")
        for field in keys:
            _check_type(self._about, field, found[field.name].type, staged_as(field).takes)
        for field in columns:
            _check_type(self._about, field, found[field.name].type, _read_from(field.type))
        self._check_rights(session, [*keys.names, *columns.names])
        self._check_unique(session, keys.names)

    def _check_rights(self, session: PostgresSession, names: Sequence[str]) -> None:
        has = "SELECT has_column_privilege($1, $2, 'SELECT')"
        missing = [quoted(name) for name in names if not session.run(has, self._table.sql, name)[0][0]]
        if missing:
            raise ConfigError(
                f"{self._about}: the job's user lacks rights: GRANT SELECT ({', '.join(missing)}) ON {self._table.sql}"
                f" TO {user_of(session)}"
            )

    def _check_unique(self, session: PostgresSession, on: Sequence[str]) -> None:
        """Refuse a table without a unique index of the key. A view has no index: two rows of a key end the job."""
        if session.run(VIEWS, self._table.sql)[0][0]:
            return
        indexes: dict[int, set[str]] = {}
        for index, column, *_ in session.run(KEYS, self._table.sql):
            indexes.setdefault(index, set()).add(column)
        if not any(names <= set(on) for names in indexes.values()):
            names = ", ".join(map(quoted, on))
            raise ConfigError(
                f"{self._about}: no unique index has only columns of `on` ({', '.join(on)}):"
                f" CREATE UNIQUE INDEX ON {self._table.sql} ({names})"
            )


class PostgresRows:
    """One connection."""

    def __init__(
        self,
        ending: ExitStack,
        session: PostgresSession,
        table: TableName,
        schemas: tuple[pa.Schema, pa.Schema],
        about: str,
    ) -> None:
        self._ending, self._session, self._about = ending, session, about
        keys, self._columns = schemas
        self._arrays = pa.schema([(f.name, pa.list_(staged_as(f).arrow)) for f in keys])
        self._sql = statement(table, keys, self._columns)

    def find(self, keys: pa.RecordBatch) -> Found:
        """Ask for the rows. Raises StorageError, and StateError for a value that the declared type does not hold."""
        asked = _askable(keys)
        arrays = [
            pa.ListArray.from_arrays([0, asked.num_rows], column.cast(kind.value_type))
            for column, kind in zip(asked.columns[1:], self._arrays.types, strict=True)
        ]
        try:
            rows = self._session.fetch(self._sql, pa.RecordBatch.from_arrays(arrays, schema=self._arrays))
        except library().Error as error:
            said = " ".join(str(error).split())
            if str(error.sqlstate or "").startswith("22"):
                raise StateError(f"{self._about}: a value cannot be read: {said}") from error
            raise StorageError(f"{self._about}: {said} ({error.sqlstate or 'no answer'})") from error
        behind = rows.columns[len(self._columns) + 1 :]  # whether a row has such a time, where there are times
        if any(pc.any(outside).as_py() for outside in behind):
            raise StateError(
                f"{self._about}: a time is infinity, or in {TIMES_END[:6]} or later, which no column of a job holds:"
                " store a null in its place, or make a view without it"
            )
        try:
            columns = [rows.column(i + 1).cast(f.type) for i, f in enumerate(self._columns)]
        except pa.ArrowInvalid as error:
            raise StateError(f"{self._about}: a value does not fit the declared type: {error}") from error
        numbers = asked.column(0).take(pc.subtract(rows.column(0), 1)).to_pylist()
        return Found(pa.RecordBatch.from_arrays(columns, schema=self._columns), numbers)

    def close(self) -> None:
        """End the connection."""
        self._ending.close()


def statement(table: TableName, keys: pa.Schema, columns: pa.Schema) -> str:
    """Return the statement that finds rows: $1, $2 ... are an array of each key column."""
    asked = ", ".join(f"${n}::{staged_as(field).sql}[]" for n, field in enumerate(keys, 1))
    names = ", ".join(f"k{n}" for n in range(1, len(keys) + 1))
    equal = " AND ".join(f"t.{quoted(name)} = k.k{n}" for n, name in enumerate(keys.names, 1))
    chosen = "".join(f", t.{quoted(f.name)}::{_cast(f.type)}" for f in columns)
    times = [field for field in columns if pa.types.is_temporal(field.type)]
    if times:
        chosen += ", " + " OR ".join(_outside(f"t.{quoted(f.name)}", f.type) for f in times)
    given = f"unnest({asked}) WITH ORDINALITY AS k({names}, n)"
    return f"SELECT k.n{chosen} FROM {given} JOIN {table.sql} t ON {equal}"


def _cast(kind: pa.DataType) -> str:
    """Return as what a value is sent: a decimal as a text, which has all its digits."""
    return "text" if pa.types.is_decimal(kind) else staged_as(pa.field("", kind)).sql


def _outside(column: str, kind: pa.DataType) -> str:
    """Return what is true of a time that Arrow does not hold. The client would give another one, without an error."""
    if pa.types.is_date(kind):
        return f"NOT coalesce(isfinite({column}), true)"
    return f"NOT coalesce({column} > '-infinity' AND {column} < '{TIMES_END}', true)"


def _read_from(kind: pa.DataType) -> tuple[str, ...]:
    """Return the types of PostgreSQL whose values a declared type holds. Raises ConfigError for one without any."""
    is_ = pa.types
    if is_.is_signed_integer(kind):
        return tuple(name for name, bits in NUMBERS.items() if bits <= kind.bit_width)
    if is_.is_float64(kind):
        return ("double precision", "real")
    if is_.is_float32(kind):
        return ("real",)
    if is_.is_string(kind) or is_.is_large_string(kind):
        return TEXTS
    return staged_as(pa.field("column", kind)).takes


def _check_type(about: str, field: pa.Field, found: str, takes: Sequence[str]) -> None:
    if found not in takes:
        other = "decimal128(precision, scale), which keeps all digits" if found == "numeric" else "another type"
        raise ConfigError(
            f"{about}: column {field.name!r} is {found}, the job has {field.type}: it has to be"
            f" {' or '.join(takes) or 'another type'}; declare {other}, or make a view that has this one"
        )


def _askable(keys: pa.RecordBatch) -> pa.RecordBatch:
    """Return the keys that a table can have, behind their numbers. PostgreSQL would refuse a query with others."""
    fits: Any = None
    for column in keys.columns:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            can = pc.invert(pc.match_substring(column, "\0"))
        elif pa.types.is_date32(column.type):
            days = column.view(pa.int32())
            can = pc.and_(pc.greater_equal(days, DAYS[0]), pc.less_equal(days, DAYS[1]))
        elif pa.types.is_timestamp(column.type):
            can = pc.greater_equal(column.view(pa.int64()), MICROSECONDS_MIN)
        else:
            continue
        fits = can if fits is None else pc.and_(fits, can)
    numbered = pa.RecordBatch.from_arrays(
        [pa.array(range(keys.num_rows), pa.int64()), *keys.columns], ["number", *keys.schema.names]
    )
    return numbered if fits is None else numbered.filter(fits)
