"""A table, as one sink task writes it: rows and the marker in one transaction.

The marker is a row of the table ``penstock_epochs`` beside it. ``protocol/marked.py`` judges it. The transaction holds
the lock of that row, so of two publishers one waits for the other and then finds its marker.

The rows go into a temporary table first, which needs no lock. So a publisher that stands still while it sends them is
in nobody's way. One that stands still with the lock is ended by the next one (``pg_terminate_backend``).
"""

import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pyarrow as pa

from penstock.connectors.postgres.client import LockHeld, PostgresDatabase, PostgresSession
from penstock.connectors.seeded_output import SeededOutput
from penstock.connectors.staged_columns import in_columns
from penstock.connectors.staged_sink import Block
from penstock.contract.ids import Epoch
from penstock.contract.latest import Unpublished
from penstock.protocol.marked import OutputMarker, Wanted, visible_blocks

log = logging.getLogger(__name__)

LOCK_WAIT_MS = 2_000
IDLE_MAX_MS = 60_000  # in a transaction; where a session cannot be ended by the next one
EPOCHS = "penstock_epochs"
ROWS = "pg_temp.penstock_rows"
NUMBER = "penstock_number"
# With `off` a server that crashes forgets rows that it has confirmed. Other values say which standbys have them, too.
DURABLE = "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"


@dataclass(frozen=True, slots=True)
class TableName:
    """A table, quoted, and the table of markers in its schema."""

    text: str

    @property
    def full(self) -> str:
        """Return the name with its schema."""
        return self.text if "." in self.text else f"public.{self.text}"

    @property
    def schema(self) -> str:
        """Return the name of its schema."""
        return self.full.partition(".")[0]

    @property
    def sql(self) -> str:
        """Return the table as SQL has it."""
        return ".".join(quoted(part) for part in self.full.split("."))

    @property
    def epochs(self) -> str:
        """Return the table of markers as SQL has it."""
        return f"{quoted(self.schema)}.{EPOCHS}"


def quoted(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Statements:
    """The SQL of one sink step."""

    make: str
    insert: str
    order: str

    def insert_between(self, low: int, high: int) -> str:
        """Return the statement that adds the rows ``low`` to ``high - 1``."""
        return f"{self.insert} WHERE {NUMBER} >= {low} AND {NUMBER} < {high} {self.order}"

    @staticmethod
    def of(table: TableName, columns: dict[str, str], keys: Sequence[str]) -> "Statements":
        """Build the statements for columns with their types of PostgreSQL. Without ``keys`` every row is added."""
        names, by = ", ".join(map(quoted, columns)), ", ".join(map(quoted, keys))
        typed = ", ".join([*(f"{quoted(n)} {kind}" for n, kind in columns.items()), f"{NUMBER} bigint"])
        newest, order = "", f"ORDER BY {NUMBER}"
        if keys:
            others = ", ".join(f"{quoted(n)} = EXCLUDED.{quoted(n)}" for n in columns if n not in keys)
            newest, order = f"DISTINCT ON ({by}) ", f"ORDER BY {by}, {NUMBER} DESC ON CONFLICT ({by}) DO "
            order += f"UPDATE SET {others}" if others else "NOTHING"
        insert = f"INSERT INTO {table.sql} ({names}) SELECT {newest}{names} FROM {ROWS}"
        return Statements(f"CREATE TEMPORARY TABLE penstock_rows ({typed}) ON COMMIT DROP", insert, order)


class MarkedTable(SeededOutput[Block]):
    """One sink task's view of the table. Any thread may use it."""

    def __init__(
        self,
        database: PostgresDatabase,
        table: TableName,
        statements: Statements,
        schema: pa.Schema,
        owner: tuple[str, str, str],
    ) -> None:
        """Connect nothing yet. ``owner`` is (job, step, task): the marker's key is that and the table."""
        super().__init__()
        self._database = database
        self._table = table
        self._statements = statements
        self._columns = schema
        self._schema = schema.append(pa.field(NUMBER, pa.int64()))
        self._owner = (table.full, *owner)
        digest = hashlib.sha256("/".join(owner).encode()).hexdigest()[:16]
        self._name = f"penstock-{owner[1][:30]}-{digest}"  # PostgreSQL keeps 63 characters
        self._where = f"postgres sink: table {table.text}"

    def _seeded(self, visible: Epoch) -> Epoch:
        with self.session() as session:
            self._seed(session, visible)
            found = self._marker(session)
        assert found is not None, "it was just written"
        return found.epoch

    def _published(self, wanted: Wanted, blocks: Iterable[Block]) -> int:
        """Write all rows in one transaction."""
        try:
            with self.session() as session:
                return self._apply(session, wanted, blocks)
        except LockHeld:
            self._end_who_stands_still()
            raise

    def _apply(self, session: PostgresSession, wanted: Wanted, blocks: Iterable[Block]) -> int:
        found, left_out = self._marker(session), 0
        visible = visible_blocks(found, wanted, self._where)
        if found == wanted.marker:
            return 0
        if found is None:
            # A row to lock. It says to a publisher that comes late that older epochs are done.
            self._seed(session, wanted.known)
        with session.transaction():
            session.run(f"SET LOCAL lock_timeout = {LOCK_WAIT_MS}")
            session.run(DURABLE)
            session.run(f"SET LOCAL idle_in_transaction_session_timeout = {IDLE_MAX_MS}")
            session.run(self._statements.make)
            if visible < wanted.blocks:
                session.copy("penstock_rows", self._schema, self._numbered(blocks))
            found = self._marker(session, " FOR UPDATE")
            if found == wanted.marker:
                return 0
            if visible_blocks(found, wanted, self._where) < wanted.blocks:
                left_out = self._insert(session, wanted.how)
            session.run(
                f"UPDATE {self._table.epochs} SET epoch = $5, digest = $6, blocks = $7, at = now()"
                " WHERE (target, job, sink, task) = ($1, $2, $3, $4)",
                *self._owner,
                int(wanted.epoch),
                wanted.digest,
                wanted.blocks,
            )
        return left_out

    def _seed(self, session: PostgresSession, epoch: Epoch) -> None:
        session.run(
            f"INSERT INTO {self._table.epochs} (target, job, sink, task, epoch, digest, blocks)"
            " VALUES ($1, $2, $3, $4, $5, 'seed', 0) ON CONFLICT DO NOTHING",
            *self._owner,
            int(epoch),
        )

    def _insert(self, session: PostgresSession, how: Unpublished) -> int:
        ((rows,),) = session.run(f"SELECT count(*) FROM {ROWS}")
        if how is Unpublished.SKIP:
            session.run("SET CONSTRAINTS ALL IMMEDIATE")  # else a refusal would come with the commit
            return self._insert_accepted(session, 0, rows)
        session.run(self._statements.insert_between(0, rows))
        return 0

    def _insert_accepted(self, session: PostgresSession, low: int, high: int) -> int:
        """Add rows without those that the table refuses, which are searched for by halves. Return their number."""
        why = session.accepted(self._statements.insert_between(low, high))
        if why is None:
            return 0
        if high - low == 1:
            log.warning("event=row_left_out sink=%s row=%d reason=%s", self._where, low, why)
            return 1
        middle = (low + high) // 2
        return self._insert_accepted(session, low, middle) + self._insert_accepted(session, middle, high)

    def _numbered(self, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        number = 0
        for block in blocks:
            for rows in block:
                numbers = pa.array(range(number, number + len(rows)), pa.int64())
                columns = in_columns(rows, self._columns, self._where)
                yield pa.RecordBatch.from_arrays([*columns, numbers], schema=self._schema)
                number += len(rows)

    def _marker(self, session: PostgresSession, lock: str = "") -> OutputMarker | None:
        select = f"SELECT epoch, digest, blocks FROM {self._table.epochs}"
        found = session.run(f"{select} WHERE (target, job, sink, task) = ($1, $2, $3, $4){lock}", *self._owner)
        return OutputMarker(Epoch(found[0][0]), found[0][1], found[0][2]) if found else None

    def _end_who_stands_still(self) -> None:
        """End sessions of this task that do nothing while they hold the lock: their process may be stopped."""
        with self.session() as session:
            session.run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1"
                " AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'"
                f" AND state_change < now() - interval '{LOCK_WAIT_MS} milliseconds' / 2",
                self._name,
            )

    def session(self) -> AbstractContextManager[PostgresSession]:
        """Connect, as publications of this task do."""
        return self._database.session(self._name, self._where)
