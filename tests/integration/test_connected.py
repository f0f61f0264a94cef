"""Two inputs with one state are exact in real processes: through kills, and a rescale 2 -> 3 -> 2.

Rows of both inputs add to the account of their key, so what is kept at the end does not depend on how they interleave.
A timer, which only the first order of an account sets, closes it when both inputs have passed all of its rows.
"""

import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration.test_typed_process import written
from tests.integration.through_kills import run_module_through_kills

FILES, ROWS, KEYS = 3, 1200, 40
CLOSED_US = 3_000_000
MODULE = f"""
import penstock as ps


@ps.record
class Order:
    id: int
    price: int
    at: ps.Time


@ps.record
class Payment:
    order: int
    amount: int
    at: ps.Time


@ps.record
class Seen:
    id: int
    at: ps.Time


@ps.record
class Closed:
    id: int
    due: int
    paid: int
    amounts: int
    at: ps.Time


@ps.state
class Account:
    due: int = 0
    paid: int = 0
    amounts: ps.Set[int]
    close: ps.Timer


def ordered(r: Order, s: Account, out: ps.Out[Closed]):
    s.due += r.price
    s.close = {CLOSED_US}
    if r.price % 31 == 5:
        raise ValueError("odd price")


def paid(r: Payment, s: Account, out: ps.Out[Closed, {{"seen": Seen}}]):
    s.paid += r.amount
    s.amounts.add(r.amount % 50)
    out.to("seen", Seen(r.order, r.at))
    if r.amount % 23 == 5:
        raise ValueError("odd amount")


def close(t: ps.Time, key, s: Account, out: ps.Out[Closed]):
    out.emit(Closed(key.id, s.due, s.paid, len(s.amounts), t))
    s.clear()
"""
JOB = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: accounts}
spec:
  replicas: 2
  checkpoint: {interval: 2s}
  job:
    parameters: {folder: .}
    graph:
      steps:
        - name: orders
          source:
            parquet: {path: "${folder}/orders", rate: 300}
            eventTime: {column: at, outOfOrderness: 10ms}
        - name: payments
          source:
            parquet: {path: "${folder}/payments", rate: 400}
            eventTime: {column: at, outOfOrderness: 10ms}
        - name: accounts
          inputs: [orders]
          keyBy: [id]
          connect:
            right: [payments]
            rightKeyBy: [order]
            leftFunction: "connected_accounts:ordered"
            rightFunction: "connected_accounts:paid"
            onError: dead-letter
            onTimer: [{timer: close, function: "connected_accounts:close"}]
        - {name: output, sink: {parquet: {path: "${folder}/out"}}}
        - {name: seen, inputs: [accounts.seen], sink: {parquet: {path: "${folder}/seen"}}}
        - {name: bad, inputs: [accounts.dead-letter], sink: {parquet: {path: "${folder}/bad"}}}
        - {name: badright, inputs: [accounts.dead-letter-right], sink: {parquet: {path: "${folder}/badright"}}}
"""


def write_input(folder: Path, key: str, value: str, seed: int) -> list[dict[str, Any]]:
    """Write files whose rows are before the time at which accounts are closed."""
    chosen, rows = random.Random(seed), []
    folder.mkdir()
    schema = pa.schema({key: pa.int64(), value: pa.int64(), "at": pa.timestamp("us")})
    for file in range(FILES):
        own = [
            {key: chosen.randrange(KEYS), value: chosen.randrange(1, 1000), "at": 2_000 * n + chosen.randrange(8_000)}
            for n in range(ROWS)
        ]
        rows += own
        pq.write_table(pa.Table.from_pylist(own, schema), folder / f"part-{file}.parquet")
    return rows


def test_two_inputs_are_exact_through_kills_and_rescales(tmp_path: Path) -> None:
    orders = write_input(tmp_path / "orders", "id", "price", 1)
    payments = write_input(tmp_path / "payments", "order", "amount", 2)
    run_module_through_kills(tmp_path, "connected_accounts", MODULE, JOB)

    due: dict[int, int] = defaultdict(int)
    paid: dict[int, list[int]] = defaultdict(list)
    for row in orders:
        due[row["id"]] += row["price"] if row["price"] % 31 != 5 else 0
    for row in payments:
        if row["amount"] % 23 != 5:
            paid[row["order"]].append(row["amount"])
    closed = Counter((k, due[k], sum(p), len({a % 50 for a in p}), CLOSED_US) for k in due for p in (paid[k],))
    assert written(tmp_path / "out", "id", "due", "paid", "amounts", "at") == closed
    kept = Counter((row["order"], row["at"]) for row in payments if row["amount"] % 23 != 5)
    assert written(tmp_path / "seen", "id", "at") == kept
    bad = Counter((row["id"], row["price"]) for row in orders if row["price"] % 31 == 5)
    assert written(tmp_path / "bad", "id", "price") == bad
    bad_right = Counter((row["order"], row["amount"]) for row in payments if row["amount"] % 23 == 5)
    assert written(tmp_path / "badright", "order", "amount") == bad_right
