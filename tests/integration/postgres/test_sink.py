"""The PostgreSQL sink against a real server: each committed row once, wherever a process is killed or stopped."""

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError, StateError, StorageError
from penstock.base.values import replace
from penstock.connectors.missing import NotThere
from penstock.connectors.postgres.client import PostgresDatabase, PostgresSession
from penstock.connectors.postgres.column_checks import staged_schema
from penstock.connectors.postgres.marked_table import MarkedTable, Statements, TableName
from penstock.connectors.postgres.postgres_sink import PostgresSink
from penstock.contract.ids import Attempt, Epoch
from penstock.contract.latest import Unpublished
from penstock.contract.manifest import SinkHandle
from penstock.contract.postgres_options import PostgresOutput
from penstock.protocol.marked import OutputMarker, Wanted
from penstock.testing import connectors as kit
from tests.support.long_tests import count
from tests.support.postgres import PASSWORD_VARIABLE, Postgres
from tests.support.staged_output import ROWS, TASK, numbers, staged
from tools.servers.kafka import new_name

pytestmark = pytest.mark.timeout(1800)
EVERY = count(997, 11)  # outgoing calls
COLUMNS = "word text NOT NULL, number bigint"


class Target:
    """A table, and a folder for what is staged."""

    def __init__(self, postgres: Postgres, folder: Path, columns: str = COLUMNS, keys: str | None = None) -> None:
        self._postgres = postgres
        self.table = postgres.table(columns)
        self.folder = folder / self.table
        self.options = PostgresOutput(postgres.server.uri, self.table, keys, f"env:{PASSWORD_VARIABLE}")

    def sink(self, schema: pa.Schema = ROWS.schema) -> PostgresSink:
        return PostgresSink("out", self.options, schema, self.folder)

    def marked(self, kind: type[MarkedTable]) -> MarkedTable:
        """Return the table as one task writes it."""
        table, schema = TableName(self.table), staged_schema(ROWS.schema)
        statements = Statements.of(table, {"word": "text", "number": "bigint"}, ())
        return kind(PostgresDatabase(self.options), table, statements, schema, ("job", "out", "0.0"))

    def visible(self) -> list[dict[str, object]]:
        return self._postgres.rows(self.table)

    def claimed(self, schema: pa.Schema = ROWS.schema, uid: str = "job") -> PostgresSink:
        sink = self.sink(schema)
        sink.claim(f"{uid}-{self.table}", fresh=True)
        return sink


@pytest.fixture
def target(postgres: Postgres, tmp_path: Path) -> Target:
    return Target(postgres, tmp_path)


@pytest.mark.parametrize("keys", [None, "number"])
def test_it_keeps_the_rules_of_a_sink_wherever_a_process_is_killed_stopped_or_given_an_error(
    postgres: Postgres, tmp_path: Path, keys: str | None
) -> None:
    columns = "word text, number bigint" + (" PRIMARY KEY" if keys else "")
    report = kit.check_sink(lambda: Target(postgres, tmp_path, columns, keys), ROWS, every=EVERY)
    assert min(report.killed, report.stopped, report.failed) >= report.calls // EVERY


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (Path.unlink, r"postgres sink: staged file .*\.part is gone: restore it, or give"),
        (
            lambda file: file.write_bytes(b"another"),
            r"staged file .*\.part is not the one committed: restore it, or give",
        ),
    ],
)
def test_a_staged_file_that_is_lost_while_rows_are_sent_ends_in_an_error(
    target: Target, harm: Callable[[Path], object], said: str
) -> None:
    sink = target.claimed()
    handles = (staged(sink, 1, ROWS.slice(0, 6)), staged(sink, 2, ROWS.slice(6)))
    files = sorted(target.folder.rglob("*.part"))
    harm(files[-1])
    with pytest.raises(StateError, match=said):
        sink.publisher.publish_all(handles, Epoch(2))
    assert target.visible() == [], "nothing is committed"


@pytest.mark.parametrize("keys", [None, "number"])
def test_two_jobs_may_write_to_one_table(postgres: Postgres, tmp_path: Path, keys: str | None) -> None:
    target = Target(postgres, tmp_path, "word text, number bigint" + (" PRIMARY KEY" if keys else ""), keys)
    handles = []
    for uid, share in (("one", ROWS.slice(0, 9)), ("two", ROWS.slice(9))):
        target.folder = tmp_path / uid  # of its checkpoints
        sink = target.claimed(uid=uid)
        handles.append((sink, staged(sink, 1, share)))
    for _ in range(2):
        for sink, handle in handles:
            sink.publisher.publish(handle, Epoch(1))
    assert numbers(target) == Counter(range(18))


def test_all_handles_of_a_task_are_published_by_one_call_and_only_once(target: Target) -> None:
    sink = target.claimed()
    handles = (staged(sink, 1, ROWS.slice(0, 6)), staged(sink, 2, ROWS.slice(6)))
    for _ in range(2):
        sink.publisher.publish_all(handles, Epoch(2))
    other = target.claimed()
    other.publisher.publish_all(handles, Epoch(2))
    assert numbers(target) == Counter(range(18))


def test_a_key_that_comes_again_keeps_its_newest_row(postgres: Postgres, tmp_path: Path) -> None:
    target = Target(postgres, tmp_path, "word text PRIMARY KEY, number bigint", keys="word")
    sink = target.claimed()
    sink.publisher.publish_all((staged(sink, 1, ROWS.slice(0, 7)), staged(sink, 2, ROWS.slice(7, 5))), Epoch(2))
    assert {row["word"]: row["number"] for row in target.visible()} == {f"word {n}": n + 5 for n in (2, 3, 4)} | {
        "word 0": 10,
        "word 1": 11,
    }
    sink.publisher.publish(staged(sink, 3, ROWS.slice(12)), Epoch(3))
    assert numbers(target) == Counter(range(13, 18))


def test_a_marker_that_is_ahead_or_lost_is_refused_with_a_remedy(postgres: Postgres, target: Target) -> None:
    sink = target.claimed()
    old, new = staged(sink, 5), staged(sink, 5, ROWS.slice(3))
    sink.publisher.publish(new, Epoch(5))
    for epoch, remedy in ((4, "let the job write to another place"), (5, "give .*Drop")):
        with pytest.raises(StateError, match=rf"marker says epoch 5.*restore the newest state, or {remedy}"):
            sink.publisher.publish(old, Epoch(epoch))
    late = staged(sink, 6)
    postgres.run("DELETE FROM penstock_epochs WHERE target = $1", f"public.{target.table}")
    with pytest.raises(StateError, match=r"marker was at epoch 5, and now it is gone.*Drop"):
        target.claimed().publisher.publish(late, Epoch(6))
    assert numbers(target) == Counter(range(3, 18))


def without_marker(postgres: Postgres, target: Target) -> tuple[PostgresSink, SinkHandle]:
    """Return a sink with committed output whose task has lost its marker."""
    sink = target.claimed()
    sink.publisher.publish(staged(sink, 5, ROWS.slice(9)), Epoch(5))
    late = staged(sink, 6, ROWS.slice(0, 9))
    postgres.run("DELETE FROM penstock_epochs WHERE target = $1", f"public.{target.table}")
    return target.claimed(), late


def test_output_is_published_without_its_marker_when_a_restore_says_so(postgres: Postgres, target: Target) -> None:
    sink, late = without_marker(postgres, target)
    with pytest.raises(StateError, match="now it is gone"):
        sink.publisher.publish_restored((late,), Epoch(6), Unpublished.SKIP)
    for _ in range(2):  # the second time the marker is there
        assert sink.publisher.publish_restored((late,), Epoch(6), Unpublished.PUBLISH) == 0
    sink.publisher.publish(staged(sink, 7, ROWS.slice(0, 1)), Epoch(7))
    assert numbers(target) == Counter(range(18)) + Counter([0])


def test_output_that_is_dropped_is_published_by_nobody_who_comes_late(postgres: Postgres, target: Target) -> None:
    sink, late = without_marker(postgres, target)
    zombie = target.claimed()
    for _ in range(2):
        assert sink.publisher.publish_restored((late,), Epoch(6), Unpublished.DROP) == 0
    zombie.publisher.publish(late, Epoch(6))
    assert numbers(target) == Counter(range(9, 18))
    sink.publisher.publish(staged(sink, 7, ROWS.slice(0, 1)), Epoch(7))
    with pytest.raises(StateError, match="restore the newest state"):
        zombie.publisher.publish_restored((late,), Epoch(6), Unpublished.DROP)
    sink.publisher.publish(staged(sink, 8, ROWS.slice(1, 1)), Epoch(8))
    assert numbers(target) == Counter(range(9, 18)) + Counter([0, 1])


@pytest.mark.parametrize(
    ("columns", "keys", "visible"),
    [
        ("word text, number bigint CHECK (number NOT IN (0, 5, 6, 17))", None, set(range(18)) - {0, 5, 6, 17}),
        ("word text PRIMARY KEY, number bigint CHECK (number < 15)", "word", {10, 11, 12, 13, 14}),
    ],
)
def test_only_the_rows_that_the_table_refuses_are_left_out(
    postgres: Postgres, tmp_path: Path, columns: str, keys: str | None, visible: set[int]
) -> None:
    target = Target(postgres, tmp_path, columns, keys)
    sink = target.claimed()
    handle = staged(sink, 1)
    with pytest.raises(StateError, match="the table refuses a row"):
        sink.publisher.publish_restored((handle,), Epoch(1), Unpublished.PUBLISH)
    left_out = 3 if keys else 4
    assert sink.publisher.publish_restored((handle,), Epoch(1), Unpublished.SKIP) == left_out
    assert sink.publisher.publish_restored((handle,), Epoch(1), Unpublished.SKIP) == 0, (
        "the marker says that it is done"
    )
    assert numbers(target) == Counter(visible)


def test_rows_that_a_trigger_refuses_with_its_own_code_are_left_out_too(postgres: Postgres, target: Target) -> None:
    postgres.run(
        f"CREATE FUNCTION {target.table}_even() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
        " IF NEW.number % 2 = 0 THEN RETURN NEW; END IF; RAISE 'odd' USING ERRCODE = 'ODD01'; END$$"
    )
    event = f"BEFORE INSERT ON {target.table} FOR EACH ROW"
    postgres.run(f"CREATE TRIGGER even {event} EXECUTE FUNCTION {target.table}_even()")
    sink = target.claimed()
    handle = staged(sink, 1)
    with pytest.raises(StateError, match=r"the table refuses a row: odd"):
        sink.publisher.publish(handle, Epoch(1))
    assert sink.publisher.publish_restored((handle,), Epoch(1), Unpublished.SKIP) == 9
    assert numbers(target) == Counter(range(0, 18, 2))


def test_a_key_that_is_larger_than_the_index_takes_is_left_out_like_any_row_that_is_refused(
    postgres: Postgres, tmp_path: Path
) -> None:
    target = Target(postgres, tmp_path, "word text PRIMARY KEY, number bigint", "word")
    sink = target.claimed()
    chosen = random.Random(7)
    large = "".join(chr(chosen.randrange(0x100, 0x2FFF)) for _ in range(6_000))  # the server cannot pack it
    rows = pa.RecordBatch.from_pylist([{"word": word, "number": n} for n, word in enumerate(("a", large, "b"))])
    handle = staged(sink, 1, rows.cast(ROWS.schema))
    with pytest.raises(StateError, match=r"the table refuses a row: .*index row"):
        sink.publisher.publish_restored((handle,), Epoch(1), Unpublished.PUBLISH)
    assert sink.publisher.publish_restored((handle,), Epoch(1), Unpublished.SKIP) == 1
    assert numbers(target) == Counter([0, 2])


def test_rows_that_are_refused_only_with_the_commit_are_left_out_too(postgres: Postgres, tmp_path: Path) -> None:
    words = postgres.table("word text PRIMARY KEY")
    postgres.run(f"INSERT INTO {words} VALUES ('word 1'), ('word 3')")
    target = Target(postgres, tmp_path, f"word text REFERENCES {words} DEFERRABLE INITIALLY DEFERRED, number bigint")
    sink = target.claimed()
    assert sink.publisher.publish_restored((staged(sink, 1),), Epoch(1), Unpublished.SKIP) == 11
    assert numbers(target) == Counter(n for n in range(18) if n % 5 in {1, 3})


@pytest.mark.parametrize(("setting", "used"), [("off", "on"), ("local", "local"), ("remote_apply", "remote_apply")])
def test_a_commit_is_on_disk_before_it_counts_whatever_the_user_has_set(
    postgres: Postgres, tmp_path: Path, setting: str, used: str
) -> None:
    target = Target(postgres, tmp_path, f"{COLUMNS}, how text DEFAULT current_setting('synchronous_commit')")
    postgres.run(f"ALTER ROLE penstock SET synchronous_commit = {setting}")
    try:
        sink = target.claimed()
        sink.publisher.publish(staged(sink, 1), Epoch(1))
    finally:
        postgres.run("ALTER ROLE penstock RESET synchronous_commit")
    assert {row["how"] for row in target.visible()} == {used}


def test_a_publisher_that_stands_still_with_the_lock_is_ended_by_the_next_one(target: Target) -> None:
    target.claimed()
    stuck, other, wanted = target.marked(MarkedTable), target.marked(MarkedTable), Wanted(Epoch(1), "d", 1, Epoch(0))
    stuck.known(Epoch(0))

    def hold_the_lock() -> None:
        with stuck.session() as session, session.transaction():
            session.run("SELECT 1 FROM penstock_epochs WHERE target = $1 FOR UPDATE", f"public.{target.table}")
            with pytest.raises(StorageError, match="another session holds a lock"):
                other.publish(wanted, [iter([ROWS])])
            other.publish(wanted, [iter([ROWS])])

    with pytest.raises(StorageError, match=r"terminat"):
        hold_the_lock()
    assert numbers(target) == Counter(range(18))


@pytest.mark.parametrize("place", ["", " FOR UPDATE"])
def test_of_two_publishers_at_once_one_writes(target: Target, place: str) -> None:
    target.claimed()
    wanted, overtaken = Wanted(Epoch(1), "digest", 1, Epoch(0)), list[str]()

    class Overtaken(MarkedTable):
        """It reads the marker, and then another publisher of the task goes on, as late as that can."""

        def _marker(self, session: PostgresSession, lock: str = "") -> OutputMarker | None:
            found = super()._marker(session, lock)
            if lock == place and not overtaken:
                overtaken.append(lock)
                with suppress(StorageError):
                    other.publish(wanted, [iter([ROWS])])
            return found

    other = target.marked(MarkedTable)
    assert other.known(Epoch(0)) == 0
    late = target.marked(Overtaken)
    with suppress(StorageError):  # one that waits with the lock for so long is ended, and begins again
        late.publish(wanted, [iter([ROWS])])
    late.publish(wanted, [iter([ROWS])])
    assert numbers(target) == Counter(range(18))


def test_a_server_that_was_killed_is_written_to_when_it_is_back(postgres: Postgres, target: Target) -> None:
    sink = target.claimed()
    first, second = staged(sink, 1, ROWS.slice(0, 6)), staged(sink, 2, ROWS.slice(6))
    sink.publisher.publish(first, Epoch(1))
    postgres.server.kill()
    with pytest.raises(StorageError, match=r"no connection to 127.0.0.1:\d+/penstock: check the address in `uri`"):
        sink.publisher.publish(second, Epoch(2))
    postgres.server.start()
    for _ in range(2):
        sink.publisher.publish(second, Epoch(2))
    assert numbers(target) == Counter(range(18))


@pytest.mark.parametrize(
    ("columns", "keys", "said"),
    [
        ("word text", None, "unknown column 'number'.*add it to the table"),
        ("word text, number text", None, "column 'number' is text, the rows have int64: make it bigint or integer"),
        ("word text, number bigint, more text NOT NULL", None, "'more' is NOT NULL and no row has it"),
        (COLUMNS, "word", r"no unique index has just these columns: CREATE UNIQUE INDEX ON .* \(\"word\"\)"),
        ("word text, number bigint GENERATED ALWAYS AS IDENTITY", None, "column 'number' is generated"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_before_a_row_is_read(
    postgres: Postgres, tmp_path: Path, columns: str, keys: str | None, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        Target(postgres, tmp_path, columns, keys).claimed()


@pytest.mark.parametrize(("collation", "refused"), [("deterministic = false", True), ("deterministic = true", False)])
def test_keys_whose_different_texts_are_equal_are_refused_before_a_row_is_read(
    postgres: Postgres, tmp_path: Path, collation: str, refused: bool
) -> None:
    name = new_name("collation").replace("-", "_")
    postgres.run(f"CREATE COLLATION {name} (provider = icu, locale = 'und-u-ks-level2', {collation})")
    target = Target(postgres, tmp_path, f"word text COLLATE {name} PRIMARY KEY, number bigint", "word")
    if refused:
        with pytest.raises(ConfigError, match=r'nondeterministic collation.*COLLATE "C"'):
            target.claimed()
        return
    sink = target.claimed()
    rows = pa.record_batch({"word": ["A", "a", "A"], "number": [1, 2, 3]}).cast(ROWS.schema)
    sink.publisher.publish(staged(sink, 1, rows), Epoch(1))
    assert {row["word"]: row["number"] for row in target.visible()} == {"A": 3, "a": 2}


def test_what_takes_no_rows_is_refused_before_a_row_is_read(postgres: Postgres, target: Target) -> None:
    postgres.run(f"CREATE MATERIALIZED VIEW shown AS SELECT * FROM {target.table}")
    target.options = replace(target.options, table="shown")
    with pytest.raises(ConfigError, match="table shown: it is no table and no view: correct `table`"):
        target.claimed()


def test_a_column_with_the_name_of_one_of_the_sink_is_refused(target: Target) -> None:
    with pytest.raises(ConfigError, match="column 'penstock_number' has a name of the sink: rename it"):
        target.sink(pa.schema([("penstock_number", pa.int64())]))


def test_a_missing_table_is_named_with_the_statement_that_makes_it(postgres: Postgres, target: Target) -> None:
    postgres.run(f"DROP TABLE {target.table}")
    with pytest.raises(ConfigError, match=rf"there is none in 127.*: CREATE TABLE .*{target.table}") as refused:
        target.claimed()
    with pytest.raises(NotThere, match="there is none in"):
        target.sink().claim("job", fresh=False)
    postgres.run(str(refused.value).partition("/penstock: ")[2])
    sink = target.claimed()
    handle = staged(sink, 1)
    postgres.run(f"ALTER TABLE {target.table} RENAME TO {target.table}_away")
    with pytest.raises(NotThere, match="bring it back as it was and start the job again"):
        sink.publisher.publish(handle, Epoch(1))
    postgres.run(f"ALTER TABLE {target.table}_away RENAME TO {target.table}")
    sink.publisher.publish(handle, Epoch(1))
    assert numbers(target) == Counter(range(18))


WIDE = pa.schema(
    [
        ("small", pa.int16()),
        ("unsigned", pa.uint32()),
        ("short", pa.string()),
        ("real", pa.float32()),
        ("yes", pa.bool_()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("instant", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(10, 2)),
        ("second", pa.timestamp("us")),
        ("milli", pa.timestamp("us", "UTC")),
    ]
)
WIDE_COLUMNS = (
    "small smallint, unsigned integer, short varchar(3), real double precision, yes boolean, raw bytea, day date,"
    " at timestamp, instant timestamptz, price numeric(6,2), second timestamp(0), milli timestamptz(3)"
)
GOOD: dict[str, object] = {
    "small": -7,
    "unsigned": 2**31 - 1,
    "short": "äöü",
    "real": 0.5,
    "yes": True,
    "raw": b"\0\1",
    "day": date(1, 1, 1),
    "at": datetime(2026, 11, 26, 15, 20, 1, 5),  # noqa: DTZ001 - a time without a zone is meant
    "instant": datetime(2026, 11, 26, 15, 20, tzinfo=UTC),
    "price": Decimal("1234.50"),
    "second": datetime(1969, 11, 26, 15, 20, 1),  # noqa: DTZ001 - a time without a zone is meant
    "milli": datetime(2026, 11, 26, 15, 20, 1, 7_000, tzinfo=UTC),
}


def test_values_of_every_type_come_back_as_they_were(postgres: Postgres, tmp_path: Path) -> None:
    target = Target(postgres, tmp_path, WIDE_COLUMNS)
    sink = target.claimed(WIDE)
    rows = pa.RecordBatch.from_pylist([GOOD, dict.fromkeys(GOOD)], schema=WIDE)
    sink.publisher.publish(staged(sink, 1, rows), Epoch(1))
    first, second = target.visible()
    assert {**first, "price": Decimal(str(first["price"]))} == GOOD
    assert set(second.values()) == {None}


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("unsigned", 2**31, "a value from 2147483648"),
        ("short", "four", "4 characters: the column has 3"),
        ("short", "\0", "NUL character"),
        ("price", Decimal("12345.00"), r"numeric\(6,2\)"),
        ("second", datetime(2026, 11, 26, 15, 20, 1, 5), "a time with more than 0 digits behind the second"),  # noqa: DTZ001
        ("milli", datetime(2026, 11, 26, 15, 20, 1, 5, tzinfo=UTC), "a time with more than 3 digits behind the second"),
    ],
)
def test_a_value_that_the_table_would_refuse_is_refused_before_the_commit(
    postgres: Postgres, tmp_path: Path, column: str, value: object, said: str
) -> None:
    sink = Target(postgres, tmp_path, WIDE_COLUMNS).claimed(WIDE)
    rows = pa.RecordBatch.from_pylist([{**GOOD, column: value}], schema=WIDE)
    with pytest.raises(ConfigError, match=f"column {column!r}: .*{said}.*correct such rows in a step before"):
        sink.writer(TASK, Attempt(1)).write(rows)


def test_a_row_that_the_table_refuses_after_the_commit_stops_the_job(postgres: Postgres, tmp_path: Path) -> None:
    target = Target(postgres, tmp_path, "word text, number bigint CHECK (number <> 5)")
    sink = target.claimed()
    handle = staged(sink, 1)
    with pytest.raises(StateError, match=r"the table refuses a row: .*check"):
        sink.publisher.publish(handle, Epoch(1))
    assert numbers(target) == Counter()
    postgres.run(f"ALTER TABLE {target.table} DROP CONSTRAINT {target.table}_number_check")
    sink.publisher.publish(handle, Epoch(1))
    assert numbers(target) == Counter(range(18))


@pytest.mark.parametrize(
    ("kind", "column", "fits", "said"),
    [
        (pa.timestamp("us"), "at timestamp(3)", [-1_000, 0, 1_000], "digits behind the second"),
        (pa.timestamp("us", "UTC"), "at timestamptz(0)", [-1_000_000, 1_000_000], "digits behind the second"),
        (pa.decimal128(38, 0), "at numeric(3,-2)", [Decimal(-100), Decimal(99_900)], r"numeric\(3,-2\)"),
        (pa.decimal128(38, 0), "at numeric(100,2)", [Decimal("9" * 38)], None),
    ],
)
def test_a_column_with_few_digits_takes_what_it_keeps_as_it_is(
    postgres: Postgres, tmp_path: Path, kind: pa.DataType, column: str, fits: list[Any], said: str | None
) -> None:
    target = Target(postgres, tmp_path, column)
    sink = target.claimed(pa.schema([("at", kind)]))
    rows = pa.record_batch({"at": pa.array(fits, kind)})
    sink.publisher.publish(staged(sink, 1, rows), Epoch(1))
    found = [row["at"] for row in target.visible()]
    if pa.types.is_decimal(kind):
        found = [Decimal(str(value)) for value in found]
    assert found == rows["at"].to_pylist()
    if said is not None:
        finer = pa.record_batch({"at": pa.array([1 if "digits" in said else Decimal(1)], kind)})
        with pytest.raises(ConfigError, match=f"column 'at': .*{said}"):
            sink.writer(TASK, Attempt(1)).write(finer)
