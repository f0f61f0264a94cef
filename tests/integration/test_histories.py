"""Histories of the real metadata store: some order of the calls explains what the callers saw, kills included."""

import subprocess
import sys
from io import StringIO
from itertools import islice
from pathlib import Path

from penstock.storage.sqlite import Database, SqliteMetaStore
from sim.checks.histories import Outcome, RegisterState, SwapCall, linearize
from tests.support.store_histories import NAME, Log, history, run_clients

FIRST = "first"
LIVES = 6
LINES_PER_LIFE = 400


def first_state(path: Path) -> RegisterState:
    database = Database(path)
    created = SqliteMetaStore(database).create(NAME, FIRST.encode())
    database.close()
    return RegisterState(created.version, FIRST)


def log_until_killed(path: Path, lines: int) -> str:
    """Run clients until they have written ``lines`` lines, and kill their process. Return their log."""
    command = [sys.executable, "-m", "tests.support.store_histories", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        log = "".join(islice(process.stdout, lines))
        process.kill()
        return log + process.stdout.read()


def test_an_order_explains_what_callers_saw_of_a_store_whose_process_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "meta.sqlite"
    first = first_state(path)
    calls = history("\n".join(log_until_killed(path, LINES_PER_LIFE) for _ in range(LIVES)))
    unanswered = [call for call in calls if isinstance(call, SwapCall) and call.outcome is Outcome.UNKNOWN]
    found = linearize(first, calls)
    assert not found.stuck
    assert len(found.order) > LIVES
    assert unanswered, "no call was in flight at any kill"


def test_a_store_that_forgets_a_swap_is_noticed(tmp_path: Path) -> None:
    path, log = tmp_path / "meta.sqlite", StringIO()
    first = first_state(path)
    database = Database(path)
    run_clients([SqliteMetaStore(database)] * 2, Log(log), range(5))
    with database.write() as (connection, _):
        connection.execute("UPDATE objects SET data = ?, version = ?", (FIRST.encode(), int(first.version or 0)))
    run_clients([SqliteMetaStore(database)], Log(log), range(5))
    database.close()
    assert linearize(first, history(log.getvalue())).stuck
