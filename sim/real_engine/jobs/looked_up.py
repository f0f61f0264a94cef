"""A job that looks rows up in tables of a database, and windows behind it, for which no row may be late::

    rows ─> price of a word, remembered, left ─┬─> prices-out
                                               └─> windows per word ─> windows-out; late-out gets nothing
    rows ─> stock of a word and a size, inner ─> stocks-out

The database is outside of the job. It answers late, refuses queries, and loses requests, answers and connections. Some
words have no row. Rows of a key and a file leave in their order.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import pyarrow as pa

import penstock as ps
from sim.kernel.kernel import Violation
from sim.real_engine.jobs.checked_job import CheckedJob
from sim.real_engine.jobs.input_rows import SECOND, START, TIMED, InputFiles, Row, must_equal, must_keep_order

ROWS, WORDS, SIZES = 60, 7, 4
STEP, WINDOW = 5 * SECOND, timedelta(minutes=1)
URI = "postgresql://simulated@database/shop"
NO_WORD = 5  # of every so many rows one has no word
PRICES = {f"w{word}": word * 100 for word in range(WORDS) if word % 3}
STOCKS = {(f"w{word}", size): word * 10 + size for word in range(WORDS) for size in range(SIZES) if (word + size) % 3}

TABLES = {
    "prices": ({"word": "text", "price": "bigint"}, ("word",)),
    "stocks": ({"item": "text", "size": "bigint", "stock": "bigint"}, ("item", "size")),
}
FILLED: dict[str, list[Row]] = {
    "prices": [{"word": word, "price": price} for word, price in PRICES.items()],
    "stocks": [{"item": word, "size": size, "stock": stock} for (word, size), stock in STOCKS.items()],
}


def rows_of(file: int) -> Iterable[Row]:
    """Return the rows of a file, in order of time."""
    for number in range(ROWS):
        identity = file * ROWS + number
        word = None if identity % NO_WORD == 2 else f"w{(number * 3 + file) % WORDS}"
        yield {"word": word, "id": identity, "at": START + number * STEP, "size": identity % SIZES}


INPUT = InputFiles(
    rows_of, TIMED.append(pa.field("size", pa.int64())), rate=20
)  # it lasts nearly as long as the faults


def job(parameters: ps.Parameters) -> ps.Job:
    """Build the job."""
    made, output = ps.Job(), parameters["output"]
    rows = INPUT.source(made, parameters)
    prices = rows.lookup(
        "prices",
        ps.postgres("prices", uri=URI),
        on="word",
        columns={"price": "int64"},
        how="left",
        capacity=2,
        batch=3,
        cache=ps.cache(3, ttl="2s"),
    )
    prices.sink("prices-out", ps.parquet(f"{output}/prices"))
    windows = prices.key_by("word").window("windows", "1m", n=ps.count(), price=ps.max("price"))
    windows.sink("windows-out", ps.parquet(f"{output}/windows"))
    windows.late.sink("late-out", ps.parquet(f"{output}/late"))
    stocks = rows.lookup(
        "stocks",
        ps.postgres("stocks", uri=URI),
        on={"word": "item", "size": "size"},
        columns={"stock": "int64"},
        capacity=1,
        batch=5,
    )
    stocks.sink("stocks-out", ps.parquet(f"{output}/stocks"))
    return made


class LookedUpJob(CheckedJob):
    """The job's input, its tables and its oracle."""

    entrypoint = f"{__name__}:job"
    outputs = ("prices", "windows", "late", "stocks")
    inputs = (INPUT,)
    tables = TABLES
    filled = FILLED
    raises = ("SqlError",)

    def check_output(self, found: Mapping[str, list[Row]]) -> None:
        """Compare the rows with what the tables have, and the windows."""
        if found["late"]:
            raise Violation("E", f"prices: {len(found['late'])} rows that waited are late, {found['late'][0]} is one")
        rows = INPUT.all_rows()
        prices = Counter((r["id"], r["word"], PRICES.get(r["word"])) for r in rows)
        stocked = [r for r in rows if (r["word"], r["size"]) in STOCKS]
        stocks = Counter((r["id"], STOCKS[r["word"], r["size"]]) for r in stocked)
        windows: Counter[Any] = Counter((r["word"], START + (r["at"] - START) // WINDOW * WINDOW) for r in rows)
        due = Counter((word, start, n, PRICES.get(word)) for (word, start), n in windows.items())
        must_equal("prices", Counter((r["id"], r["word"], r["price"]) for r in found["prices"]), prices)
        must_equal("stocks", Counter((r["id"], r["stock"]) for r in found["stocks"]), stocks)
        seen = Counter((r["word"], r["window_start"], r["n"], r["price"]) for r in found["windows"])
        must_equal("windows", seen, due)
        must_keep_order("prices", (row for row in found["prices"] if row["word"] is not None), ROWS)
        of_keys = ({**row, "word": f"{row['word']}, {row['size']}"} for row in found["stocks"])
        must_keep_order("stocks", of_keys, ROWS)
