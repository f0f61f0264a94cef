"""A job of orders and prices, joined in windows and by the price that holds at an order's time::

    orders ──┬──> join in windows per word ─> pairs-out
    prices ──┤
             └──> join with the table of prices ─┬─> priced-out
                                                 └─> windows per word ─> windows-out; late-out gets nothing

Prices are read slower than orders. So at most barriers orders wait in the state of both joins.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import penstock as ps
from sim.kernel.kernel import Violation
from sim.real_engine.jobs.checked_job import CheckedJob
from sim.real_engine.jobs.input_rows import START, Row, must_equal
from sim.real_engine.jobs.joined import FILES, side_files

ORDERS = side_files("orders", 120, 70, "id", "at")
PRICES = side_files("prices", 20, 12, "price", "since")
WINDOW, INSTANT = timedelta(minutes=1), timedelta(microseconds=1)


def job(parameters: ps.Parameters) -> ps.Job:
    """Build the job."""
    made, output = ps.Job(), parameters["output"]
    orders, prices = (side.source(made, parameters) for side in (ORDERS, PRICES))
    pairs = orders.join("pairs", prices, on="word", within="1m", how="full", event_time="closed")
    pairs.sink("pairs-out", ps.parquet(f"{output}/pairs"))
    priced = orders.join_table("priced", prices, on="word", how="left")
    priced.sink("priced-out", ps.parquet(f"{output}/priced"))
    windows = priced.key_by("word").window("windows", "1m", n=ps.count(), prices=ps.sum("price"))
    windows.sink("windows-out", ps.parquet(f"{output}/windows"))
    windows.late.sink("late-out", ps.parquet(f"{output}/late"))
    return made


class PricedJob(CheckedJob):
    """The job's input and oracle."""

    entrypoint = f"{__name__}:job"
    outputs = ("pairs", "priced", "windows", "late")
    inputs = (ORDERS, PRICES)

    def check_output(self, found: Mapping[str, list[Row]]) -> None:
        """Compare the pairs, the orders with their prices, and the windows that these are in."""
        if found["late"]:
            raise Violation("E", f"prices: {len(found['late'])} results are late, {found['late'][0]} is one")
        names = "word", "id", "at", "price", "since"
        pairs = Counter(tuple(row[name] for name in (*names, "closed")) for row in found["pairs"])
        must_equal("join in windows", pairs, _pairs())
        priced = _priced()
        must_equal("join with a table", Counter(tuple(row[n] for n in names) for row in found["priced"]), priced)
        windows: dict[tuple[str, datetime], list[int | None]] = {}
        for word, _, at, price, _ in priced:
            windows.setdefault((word, _window(at)), []).append(price)
        expected = Counter({(*key, len(of), _sum(of)): 1 for key, of in windows.items()})
        counted = Counter((r["word"], r["window_start"], r["n"], r["prices"]) for r in found["windows"])
        must_equal("join with a table, windows", counted, expected)


def _window(at: datetime) -> datetime:
    return START + (at - START) // WINDOW * WINDOW


def _sum(prices: list[int | None]) -> int | None:
    known = [price for price in prices if price is not None]
    return sum(known) if known else None


def _pairs() -> Counter[Any]:
    """Put the rows of each window of a word side by side."""
    windows: dict[tuple[str, datetime], tuple[list[Row], list[Row]]] = {}
    for side, (files, time) in enumerate(((ORDERS, "at"), (PRICES, "since"))):
        for row in files.all_rows():
            windows.setdefault((row["word"], _window(row[time])), ([], []))[side].append(row)
    expected: Counter[Any] = Counter()
    for (word, begin), (orders, prices) in windows.items():
        for order in orders or [{"id": None, "at": None}]:
            for price in prices or [{"price": None, "since": None}]:
                expected[word, order["id"], order["at"], price["price"], price["since"], begin + WINDOW - INSTANT] += 1
    assert sum(row[3] is None for row in expected) > FILES, "the input has windows without a price"
    return expected


def _priced() -> Counter[Any]:
    """Look for the newest price of each order."""
    prices, expected = PRICES.all_rows(), Counter[Any]()
    for order in ORDERS.all_rows():
        known = [p for p in prices if p["word"] == order["word"] and p["since"] <= order["at"]]
        newest = max(known, key=lambda p: p["since"], default={"price": None, "since": None})
        assert sum(p["since"] == newest["since"] for p in known) < 2, "no two prices of a word begin at once"
        expected[order["word"], order["id"], order["at"], newest["price"], newest["since"]] += 1
    assert sum(row[3] is None for row in expected) > FILES, "the input has orders without a price"
    return expected
