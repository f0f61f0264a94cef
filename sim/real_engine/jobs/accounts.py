"""A job of two inputs with one state, and windows behind it, for which no row may be late::

    orders ───┐
              ├─> per (word, bucket): two functions ─┬─> accounts-out
    payments ─┘   and a timer at its end             └─> windows per (kind, word) ─> windows-out; late-out gets nothing

Orders are read faster than payments. Each row leaves with the running number and the running sum of its account. So a
row that meets another state than the one before has left shows. The timer fires when both inputs have passed its time.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import penstock as ps
from sim.kernel.kernel import Violation
from sim.real_engine.jobs.checked_job import CheckedJob
from sim.real_engine.jobs.input_rows import Row, micros, must_equal
from sim.real_engine.jobs.joined import side_files

ORDERS, PAYMENTS = side_files("orders", 120, 70, "id", "at"), side_files("payments", 60, 35, "id", "at")
BUCKET_US = 60_000_000


@ps.record
class BookEntry:
    """An input row."""

    word: str
    id: int
    at: ps.Time


@ps.record
class Booking:
    """A row and its bucket of time. The number of a payment is negative."""

    word: str
    bucket: int
    id: int
    at: ps.Time


@ps.record
class Booked:
    """A row of an account, or at the end of its bucket the whole account: how many rows it has, and their sum.

    ``orders`` are those of its rows that are orders.
    """

    kind: str
    word: str
    bucket: int
    at: ps.Time
    id: int
    n: int
    orders: int
    total: int


@ps.state
class Account:
    """What is kept of a word and bucket."""

    orders: int = 0
    total: int = 0
    ids: ps.Set[int]
    close: ps.Timer


def order(r: BookEntry) -> Booking:
    """Find the bucket of an order."""
    return Booking(r.word, r.at // BUCKET_US, r.id, r.at)


def payment(r: BookEntry) -> Booking:
    """Find the bucket of a payment."""
    return Booking(r.word, r.at // BUCKET_US, -1 - r.id, r.at)


def ordered(r: Booking, s: Account, out: ps.Out[Booked]) -> None:
    """Add an order. Only orders set the timer."""
    s.orders += 1
    s.close = (r.bucket + 1) * BUCKET_US
    paid(r, s, out)


def paid(r: Booking, s: Account, out: ps.Out[Booked]) -> None:
    """Add a row to its account."""
    s.total += r.id
    s.ids.add(r.id)
    out.emit(Booked("row", r.word, r.bucket, r.at, r.id, len(s.ids), s.orders, s.total))


def close(t: ps.Time, key: Any, s: Account, out: ps.Out[Booked]) -> None:
    """Say what the account has, and forget it."""
    out.emit(Booked("closed", key.word, key.bucket, t - 1, 0, len(s.ids), s.orders, s.total))
    s.clear()  # type: ignore[attr-defined]  # the decorator makes it


def job(parameters: ps.Parameters) -> ps.Job:
    """Build the job."""
    made, output = ps.Job(), parameters["output"]
    orders, payments = (
        side.source(made, parameters).map(f"place-{side.name}", place, compiled="never").key_by("word", "bucket")
        for side, place in ((ORDERS, order), (PAYMENTS, payment))
    )
    both = ps.connect(orders, payments)
    accounts = both.process("accounts", left=ordered, right=paid, on_timer={"close": close}, compiled="never")
    accounts.sink("accounts-out", ps.parquet(f"{output}/accounts"))
    windows = accounts.key_by("kind", "word").window("windows", "1m", n=ps.count())
    windows.sink("windows-out", ps.parquet(f"{output}/windows"))
    windows.late.sink("late-out", ps.parquet(f"{output}/late"))
    return made


class ConnectedJob(CheckedJob):
    """The job's input and oracle."""

    entrypoint = f"{__name__}:job"
    outputs = ("accounts", "windows", "late")
    inputs = (ORDERS, PAYMENTS)

    def check_output(self, found: Mapping[str, list[Row]]) -> None:
        """Add up each account in the order of the output. Compare the closed accounts, and then the windows."""
        if found["late"]:
            raise Violation("E", f"accounts: {len(found['late'])} rows are late, {found['late'][0]} is one")
        expected = _accounts()
        ids: dict[Any, list[int]] = {account: [] for account in expected}
        closed: Counter[Any] = Counter()
        for row in found["accounts"]:
            own = ids[row["word"], row["bucket"]]
            if row["kind"] == "row":
                own.append(row["id"])
            right = len(own), sum(number >= 0 for number in own), sum(own)
            if (row["n"], row["orders"], row["total"]) != right:
                raise Violation("E", f"accounts: {row} must have n, orders and total {right}")
            closed[row["word"], row["bucket"]] += row["kind"] == "closed"
        for account, own in ids.items():
            must_equal(f"account {account}", Counter(own), Counter(expected[account]))
        must_equal("closed", closed, Counter(dict.fromkeys(expected, 1)))
        if len({(r["kind"], r["word"], r["window_start"]) for r in found["windows"]}) != len(found["windows"]):
            raise Violation("E", "windows: one is there twice")
        counted = {(r["kind"], r["word"], micros(r["window_start"]) // BUCKET_US): r["n"] for r in found["windows"]}
        windows = {("closed", *account): 1 for account in expected}
        windows |= {("row", *account): len(own) for account, own in expected.items()}
        must_equal("windows", Counter(counted), Counter(windows))


def _accounts() -> dict[tuple[str, int], list[int]]:
    """Return the numbers of the rows of each account."""
    accounts: dict[tuple[str, int], list[int]] = {}
    for row in (*ORDERS.all_rows(), *({**row, "id": -1 - row["id"]} for row in PAYMENTS.all_rows())):
        accounts.setdefault((row["word"], micros(row["at"]) // BUCKET_US), []).append(row["id"])
    assert all(max(own) >= 0 for own in accounts.values()), "each account has an order, which sets its timer"
    return accounts
