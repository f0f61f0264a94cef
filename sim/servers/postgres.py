"""A virtual PostgreSQL: sessions, transactions that read what is committed, and the lock of a row of markers.

It knows the statements of ``connectors/postgres`` and no others. Each call of :class:`VirtualPostgres` is one atomic
step. A statement that waits for a lock raises :class:`~sim.servers.Waits`.

It has no locks of rows of output: where two transactions write one key, the later commit wins.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sim.servers import Waits

NUMBER = "penstock_number"
IDLE_S = 1.0  # so long a session is idle before another one of its name ends it; see marked_table.py
NEVER_S = 1e9

Row = dict[str, Any]
Answer = list[tuple[Any, ...]]
Marker = tuple[int, str, int]  # epoch, digest, blocks


class SqlError(Exception):
    """What the server answers in the place of rows; no ``sqlstate`` when there is no answer."""

    def __init__(self, sqlstate: str | None, text: str) -> None:
        super().__init__(sqlstate, text)
        self.sqlstate = sqlstate

    def __str__(self) -> str:
        return str(self.args[1])


@dataclass(slots=True)
class Table:
    """A table that exists. ``keys``: the columns of its unique index. ``takes`` is a CHECK of its rows."""

    columns: dict[str, str]
    keys: tuple[str, ...] = ()
    rows: list[Row] = field(default_factory=list)
    takes: Callable[[Row], bool] = lambda _: True


@dataclass(slots=True)
class SqlSession:
    """One connection at the server. What its transaction wrote is in ``rows`` and ``marker`` until the commit."""

    client: str
    name: str
    in_transaction: bool = False
    failed: bool = False
    waits_since: float | None = None
    idle_since: float = 0.0
    lock_timeout_s: float = NEVER_S
    idle_max_s: float = NEVER_S
    temporary: list[Row] | None = None
    rows: list[tuple[str, list[Row]]] = field(default_factory=list)
    marker: tuple[tuple[str, ...], Marker] | None = None
    held: set[tuple[str, ...]] = field(default_factory=set)


class VirtualPostgres:
    """See the module. ``marked`` is called with each change of a marker: its key, what it was, and what it is."""

    def __init__(
        self,
        clock: Callable[[], float],
        marked: Callable[[tuple[str, ...], Marker | None, Marker], None] = lambda *_: None,
    ) -> None:
        self._clock = clock
        self._marked = marked
        self._tables: dict[str, Table] = {}
        self._markers: dict[tuple[str, ...], Marker] = {}
        self._has_markers = False
        self._sessions: dict[int, SqlSession] = {}
        self._opened = 0

    # --- For those who look at the server

    def make_table(self, name: str, columns: dict[str, str], keys: tuple[str, ...] = ()) -> None:
        """Make a table of the schema public: its columns with their types."""
        self._tables[name] = Table(columns, keys)

    def put(self, table: str, rows: Sequence[Row]) -> None:
        """Add rows, as another program does that writes to the table."""
        self._tables[table].rows += rows

    def add_check(self, table: str, takes: Callable[[Row], bool]) -> None:
        """Have a table refuse rows from now on."""
        self._tables[table].takes = takes

    def lose_markers(self) -> None:
        """Remove all markers, as somebody does who cleans up."""
        self._markers.clear()

    def rows(self, table: str) -> list[Row]:
        """Return what a reader sees now."""
        return list(self._tables[table].rows)

    def marker_of(self, table: str, step: str, task: str) -> int:
        """Return up to which epoch the output of a task is visible, in any job; -1 without a marker."""
        key = f"public.{table}", step, task
        return max((m[0] for (target, _, *owner), m in self._markers.items() if (target, *owner) == key), default=-1)

    def client_ended(self, client: str) -> None:
        """End the sessions of a process that is gone."""
        for number in [number for number, session in self._sessions.items() if session.client == client]:
            self.close(number)

    # --- For clients

    def open(self, client: str, name: str) -> int:
        """Begin a session. Return its number."""
        self._opened += 1
        self._sessions[self._opened] = SqlSession(client, name)
        return self._opened

    def close(self, number: int) -> None:
        """End a session, and roll back what it has not committed."""
        self._sessions.pop(number, None)

    def run(self, number: int, sql: str, values: tuple[Any, ...]) -> Answer:
        """Run a statement. Raises SqlError, and Waits."""
        session = self._session(number)
        if session.failed and sql not in ("ROLLBACK TO SAVEPOINT before", "COMMIT"):
            raise SqlError("25P02", "current transaction is aborted")
        found = ((statement, re.match(pattern, sql, re.DOTALL)) for pattern, statement in STATEMENTS)
        known = [(statement, match) for statement, match in found if match]
        assert known, f"the virtual server does not know the statement {sql!r}"
        statement, match = known[0]
        try:
            answer = statement(self, session, match, values)
        except SqlError:
            session.failed = session.in_transaction
            raise
        session.waits_since, session.idle_since = None, self._clock()
        return answer

    def copy(self, number: int, rows: list[Row]) -> None:
        """Add rows to the temporary table."""
        session = self._session(number)
        assert session.temporary is not None, "the client has made its table"
        session.temporary += rows
        session.idle_since = self._clock()

    def _session(self, number: int) -> SqlSession:
        session = self._sessions.get(number)
        if session is None:
            raise SqlError("57P01", "terminating connection due to administrator command")
        return session

    # --- Transactions

    def _begin(self, session: SqlSession, _match: re.Match[str], _values: tuple[Any, ...]) -> Answer:
        session.in_transaction = True
        return []

    def _commit(self, session: SqlSession, _match: re.Match[str], _values: tuple[Any, ...]) -> Answer:
        failed, rows, marker = session.failed, session.rows, session.marker
        self._reset(session)
        if not failed:
            for table, added in rows:
                _apply(self._tables[table], added)
            if marker is not None:
                self._mark(*marker)
        return []

    def _reset(self, session: SqlSession) -> None:
        session.in_transaction = session.failed = False
        session.temporary, session.marker, session.rows = None, None, []
        session.held.clear()
        session.lock_timeout_s = session.idle_max_s = NEVER_S

    def _savepoint(self, session: SqlSession, match: re.Match[str], _values: tuple[Any, ...]) -> Answer:
        if match[0].startswith("ROLLBACK"):
            session.failed = False
        return []

    def _set(self, session: SqlSession, match: re.Match[str], _values: tuple[Any, ...]) -> Answer:
        seconds = int(match[2]) / 1000
        if match[1] == "lock_timeout":
            session.lock_timeout_s = seconds
        else:
            session.idle_max_s = seconds
        return []

    # --- Markers

    def _read_marker(self, session: SqlSession, match: re.Match[str], values: tuple[Any, ...]) -> Answer:
        key = tuple(map(str, values[:4]))
        if match[1] and key in self._markers:
            self._lock(session, key)
        if session.marker is not None and session.marker[0] == key:
            return [session.marker[1]]
        return [self._markers[key]] if key in self._markers else []

    def _seed(self, session: SqlSession, match: re.Match[str], values: tuple[Any, ...]) -> Answer:
        key = tuple(map(str, values[:4]))
        if key not in self._markers and match[1].startswith("VALUES"):
            self._mark(key, (int(values[4]), "seed", 0))
        return []

    def _update_marker(self, session: SqlSession, _match: re.Match[str], values: tuple[Any, ...]) -> Answer:
        key = tuple(map(str, values[:4]))
        if key not in self._markers:
            return []
        self._lock(session, key)
        session.marker = (key, (int(values[4]), str(values[5]), int(values[6])))
        if not session.in_transaction:
            self._commit(session, _match, ())
        return []

    def _mark(self, key: tuple[str, ...], marker: Marker) -> None:
        before = self._markers.get(key)
        self._markers[key] = marker
        self._marked(key, before, marker)

    def _lock(self, session: SqlSession, key: tuple[str, ...]) -> None:
        """Take the lock of a row for the rest of the transaction. Raises Waits, SqlError when it takes too long."""
        now = self._clock()
        for number, other in list(self._sessions.items()):
            if other is not session and key in other.held:
                if other.waits_since is None and now - other.idle_since > other.idle_max_s:
                    self.close(number)
                    continue
                session.waits_since = now if session.waits_since is None else session.waits_since
                if now - session.waits_since > session.lock_timeout_s:
                    session.waits_since = None
                    raise SqlError("55P03", "canceling statement due to lock timeout")
                raise Waits
        if session.in_transaction:
            session.held.add(key)

    def _terminate(self, session: SqlSession, _match: re.Match[str], values: tuple[Any, ...]) -> Answer:
        now = self._clock()
        still = [
            number
            for number, other in self._sessions.items()
            if other is not session
            and (other.name, other.in_transaction, other.waits_since) == (values[0], True, None)
            and now - other.idle_since > IDLE_S
        ]
        for number in still:
            self.close(number)
        return [(True,)] * len(still)

    # --- Rows

    def _make_temporary(self, session: SqlSession, _match: re.Match[str], _values: tuple[Any, ...]) -> Answer:
        session.temporary = []
        return []

    def _count(self, session: SqlSession, _match: re.Match[str], _values: tuple[Any, ...]) -> Answer:
        return [(len(session.temporary or ()),)]

    def _insert(self, session: SqlSession, match: re.Match[str], _values: tuple[Any, ...]) -> Answer:
        table = self._tables[match["table"]]
        low, high = int(match["low"]), int(match["high"])
        given = [row for row in session.temporary or () if low <= row[NUMBER] < high]
        if any(value is None for row in given for value in _key(row, table.keys)):
            raise SqlError("23502", "null value in column violates not-null constraint")
        given = _sorted(given, match["order"])
        if match["by"]:
            given = list({_key(row, _names(match["by"])): row for row in reversed(given)}.values())[::-1]
        added = [{name: row[name] for name in _names(match["names"])} for row in given]
        if not all(map(table.takes, added)):
            raise SqlError("23514", "new row violates check constraint")
        if match["conflict"]:
            if len({_key(row, table.keys) for row in added}) < len(added):
                raise SqlError("21000", "ON CONFLICT DO UPDATE command cannot affect row a second time")
        else:
            mine = [row for name, rows in session.rows if name == match["table"] for row in rows]
            keys = [_key(row, table.keys) for row in (*table.rows, *mine, *added)]
            if table.keys and len(set(keys)) < len(keys):
                raise SqlError("23505", "duplicate key value violates unique constraint")
        session.rows.append((match["table"], added))
        return []

    def _look_up(self, _session: SqlSession, match: re.Match[str], values: tuple[Any, ...]) -> Answer:
        """Return the rows that have one of the keys, behind the number of the key, in any order."""
        table = self._tables[match["table"]]
        on = re.findall(r't\."(\w+)" = k\.', match["equal"])
        chosen = re.findall(r't\."(\w+)"::', match["chosen"])
        asked = {key: number for number, key in enumerate(zip(*values, strict=True), 1)}
        found = ((asked.get(_key(row, on)), row) for row in reversed(table.rows))
        return [(number, *_key(row, chosen)) for number, row in found if number is not None]

    def _is_view(self, _session: SqlSession, _match: re.Match[str], _values: tuple[Any, ...]) -> Answer:
        return [(False,)]

    # --- What a claim asks

    def _columns_of(self, _session: SqlSession, _match: re.Match[str], values: tuple[Any, ...]) -> Answer:
        table = self._tables.get(_table(values[0]))
        if table is None:
            return []
        return [(name, kind, -1, name in table.keys, False, False) for name, kind in table.columns.items()]

    def _keys_of(self, _session: SqlSession, _match: re.Match[str], values: tuple[Any, ...]) -> Answer:
        keys = self._tables[_table(values[0])].keys
        return [(1, name, len(keys), False) for name in keys]

    def _lacks_markers(self, _session: SqlSession, _match: re.Match[str], _values: tuple[Any, ...]) -> Answer:
        return [(not self._has_markers,)]

    def _make_markers(self, _session: SqlSession, _match: re.Match[str], _values: tuple[Any, ...]) -> Answer:
        self._has_markers = True
        return []

    def _yes(self, _session: SqlSession, _match: re.Match[str], _values: tuple[Any, ...]) -> Answer:
        return [(True,)]


def _apply(table: Table, added: Sequence[Row]) -> None:
    """Add rows; one with the key of another takes its place."""
    places = {_key(row, table.keys): place for place, row in enumerate(table.rows)} if table.keys else {}
    for row in added:
        key = _key(row, table.keys)
        if key in places:
            table.rows[places[key]] = row
        else:
            if table.keys:
                places[key] = len(table.rows)
            table.rows.append(row)


def _key(row: Row, names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def _names(text: str) -> list[str]:
    return [part.strip('"') for part in text.split(", ")]


def _table(text: str) -> str:
    return text.rpartition(".")[2].strip('"')


def _sorted(rows: list[Row], order: str) -> list[Row]:
    for column in reversed(order.split(", ")):
        name, down = column.removesuffix(" DESC").strip('"'), column.endswith(" DESC")
        rows = sorted(rows, key=lambda row: row[name], reverse=down)
    return rows


LOOK_UP = re.compile(
    r'SELECT k\.n(?P<chosen>.*) FROM unnest\(.+\) WITH ORDINALITY AS k\(.+\) JOIN "public"\."(?P<table>\w+)" t'
    r" ON (?P<equal>.+)$"
)
_OF_MARKERS = r"\S+penstock_epochs"
_INSERT = (
    r'INSERT INTO "public"\."(?P<table>\w+)" \((?P<names>.+?)\) SELECT (?:DISTINCT ON \((?P<by>.+?)\) )?.+? FROM'
    r" pg_temp\.penstock_rows WHERE penstock_number >= (?P<low>\d+) AND penstock_number < (?P<high>\d+)"
    r" ORDER BY (?P<order>.+?)(?: ON CONFLICT \((?P<conflict>.+?)\) DO .+)?$"
)
Statement = Callable[[VirtualPostgres, SqlSession, re.Match[str], tuple[Any, ...]], Answer]
STATEMENTS: tuple[tuple[str, Statement], ...] = (
    (r"BEGIN$", VirtualPostgres._begin),
    (r"COMMIT$", VirtualPostgres._commit),
    (r"(SAVEPOINT|ROLLBACK TO SAVEPOINT|RELEASE SAVEPOINT) before$", VirtualPostgres._savepoint),
    (r"SET LOCAL (lock_timeout|idle_in_transaction_session_timeout) = (\d+)$", VirtualPostgres._set),
    (r"SET CONSTRAINTS ALL IMMEDIATE$", VirtualPostgres._yes),
    (rf"SELECT epoch, digest, blocks FROM {_OF_MARKERS} WHERE .+?\$4\)( FOR UPDATE)?$", VirtualPostgres._read_marker),
    (rf"INSERT INTO {_OF_MARKERS} \(.+?\) (VALUES|SELECT) .+", VirtualPostgres._seed),
    (rf"UPDATE {_OF_MARKERS} SET epoch = \$5, digest = \$6, blocks = \$7", VirtualPostgres._update_marker),
    (r"SELECT pg_terminate_backend\(pid\) FROM pg_stat_activity", VirtualPostgres._terminate),
    (r"CREATE TEMPORARY TABLE penstock_rows .+ ON COMMIT DROP$", VirtualPostgres._make_temporary),
    (r"SELECT count\(\*\) FROM pg_temp\.penstock_rows$", VirtualPostgres._count),
    (_INSERT, VirtualPostgres._insert),
    (LOOK_UP.pattern, VirtualPostgres._look_up),
    (r"SELECT relkind (NOT )?IN .+ FROM pg_class", VirtualPostgres._is_view),
    (r"SELECT a\.attname.+FROM pg_attribute", VirtualPostgres._columns_of),
    (r"SELECT i\.indexrelid.+FROM pg_index", VirtualPostgres._keys_of),
    (r"SELECT to_regclass\(\$1\) IS NULL$", VirtualPostgres._lacks_markers),
    (rf"CREATE TABLE IF NOT EXISTS {_OF_MARKERS} ", VirtualPostgres._make_markers),
    (r"SELECT (has_\w+_privilege|pg_advisory_xact_lock|set_config)\(", VirtualPostgres._yes),
)
