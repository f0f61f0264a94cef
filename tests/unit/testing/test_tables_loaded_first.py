"""Side tables that are loaded before a row reads them."""

from datetime import datetime
from typing import Any

import penstock as ps

BEGIN, LOADED = datetime(2026, 1, 1), datetime(2026, 1, 1, 0, 0, 10)  # noqa: DTZ001 - the column has no time zone


@ps.record
class Order:
    """A row."""

    id: int


@ps.record
class Seen:
    """A row, its running number, and what it found in both tables."""

    id: int
    n: int
    limit: int
    rules: int


@ps.state
class Kept:
    """What is kept of a key. The state of rows that wait must have another name."""

    waiting: ps.List[int]


def look(r: Order, s: Kept, side: Any, out: ps.Out[Seen]) -> None:
    """Say what is there."""
    s.waiting.append(r.id)
    out.emit(Seen(r.id, len(s.waiting), side.limits[r.id]["most"], len(side.rules)))


def built(_: ps.Parameters) -> ps.Job:
    """Wait for one of two tables, neither of which ends."""
    job = ps.Job()
    orders = job.source("orders", ps.parquet("orders"), columns={"id": "int64"})
    columns = {"name": "int64", "most": "int64", "at": "timestamp[us]"}
    changes = job.source("changes", ps.parquet("changes"), columns=columns, event_time="at")
    rules = job.source("new-rules", ps.parquet("rules"), columns={"name": "int64"})
    side = {
        "limits": changes.side("limits", on="name", load_until=LOADED),
        "rules": rules.side("rules", on="name"),
    }
    orders.key_by("id").process("look", look, side=side).sink("output", ps.parquet("out"))
    return job


def change(name: int, most: int, at: datetime) -> dict[str, Any]:
    return {"name": name, "most": most, "at": at}


def test_rows_wait_for_the_table_that_is_loaded_first_and_move_meanwhile() -> None:
    with ps.testing.run(built, workers=2) as t:
        t.push("orders", [{"id": 1}, {"id": 2}])
        t.push("changes", [change(1, 5, BEGIN), change(2, 6, BEGIN)])
        t.checkpoint()
        assert list(t.rows("output")) == [], "the table is not loaded"
        with t.restore(t.snapshot(), workers=3) as later:
            later.push("changes", [change(1, 7, LOADED)])
            later.push("orders", [{"id": 1}])
            later.checkpoint()
            rows = sorted((row["id"], row["n"], row["limit"], row["rules"]) for row in later.rows("output"))
    assert rows == [(1, 1, 7, 0), (1, 2, 7, 0), (2, 1, 6, 0)]
