"""Two inputs with one state against plain Python: any order of batches, watermarks, restores and modes of running."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps

SECOND = 1_000_000
KEYS = ("a", "b", "c")


@ps.record
class Order:
    price: int
    who: str
    at: ps.Time


@ps.record
class Payment:
    payer: str
    amount: int
    at: ps.Time


@ps.record
class Balance:
    who: str
    due: int
    paid: int
    kind: int


@ps.record
class Refund:
    who: str
    amount: int


@ps.state
class Account:
    due: int = 0
    paid: int = 0
    check: ps.Timer


def ordered(r: Order, s: Account, out: ps.Out[Balance]) -> None:
    s.due += r.price
    out.emit(Balance(r.who, s.due, s.paid, 0))
    s.check = r.at + 5 * 1_000_000
    if r.price % 7 == 3:
        raise ValueError("odd price")


def paid(r: Payment, s: Account, out: ps.Out[Balance, {"refund": Refund}]) -> None:  # type: ignore[type-arg,misc] # noqa: F821
    s.paid += r.amount
    if s.paid > s.due:
        out.to("refund", Refund(r.payer, s.paid - s.due))
        s.paid = s.due
    out.emit(Balance(r.payer, s.due, s.paid, 1))
    if r.amount % 5 == 4:
        raise ValueError("odd amount")


def check(t: ps.Time, key: Any, s: Account, out: ps.Out[Balance]) -> None:
    out.emit(Balance(key.who, s.due, s.paid, t))


def job(mode: Any) -> ps.Job:
    job = ps.Job()
    orders = job.source(
        "orders", ps.parquet("x"), columns={"price": "int64", "who": "string", "at": "timestamp[us]"}, event_time="at"
    )
    payments = job.source(
        "payments", ps.parquet("y"), columns={"payer": "string", "amount": "int64", "at": "timestamp[us]"},
        event_time="at",
    )  # fmt: skip
    both = ps.connect(orders.key_by("who"), payments.key_by("payer")).process(
        "accounts", left=ordered, right=paid, on_timer={"check": check}, on_error="dead-letter", compiled=mode
    )
    both.sink("out", ps.discard())
    both.output("refund").sink("refunds", ps.discard())
    both.dead_letter.sink("bad", ps.discard())
    both.output("dead-letter-right").sink("bad-right", ps.discard())
    return job


class Model:
    """The accounts, and all that is emitted."""

    def __init__(self) -> None:
        self.accounts: dict[str, list[Any]] = {}
        self.times = {"orders": -(2**62), "payments": -(2**62)}
        self.out: Counter[Any] = Counter()
        self.refunds: Counter[Any] = Counter()
        self.bad: Counter[Any] = Counter()
        self.bad_right: Counter[Any] = Counter()

    def order(self, row: Order) -> None:
        if row.price % 7 == 3:
            self.bad[row.who, row.price] += 1
            return
        account = self.accounts.setdefault(row.who, [0, 0, None])
        account[0] += row.price
        account[2] = max(row.at + 5 * SECOND, min(self.times.values()) + 1)
        self.out[row.who, account[0], account[1], 0] += 1

    def pay(self, row: Payment) -> None:
        if row.amount % 5 == 4:
            self.bad_right[row.payer, row.amount] += 1
            return
        account = self.accounts.setdefault(row.payer, [0, 0, None])
        account[1] += row.amount
        if account[1] > account[0]:
            self.refunds[row.payer, account[1] - account[0]] += 1
            account[1] = account[0]
        self.out[row.payer, account[0], account[1], 1] += 1

    def watermark(self, source: str, time: int) -> None:
        self.times[source] = max(self.times[source], time)
        reached = min(self.times.values())
        for who, account in self.accounts.items():
            if account[2] is not None and account[2] <= reached:
                self.out[who, account[0], account[1], account[2]] += 1
                account[2] = None


orders = st.builds(Order, st.integers(1, 40), st.sampled_from(KEYS), st.integers(0, 30).map(lambda s: s * SECOND))
payments = st.builds(Payment, st.sampled_from(KEYS), st.integers(1, 60), st.integers(0, 30).map(lambda s: s * SECOND))
actions = st.lists(
    st.one_of(
        st.tuples(st.just("orders"), st.lists(orders, max_size=5)),
        st.tuples(st.just("payments"), st.lists(payments, max_size=5)),
        st.tuples(st.just("watermark"), st.tuples(st.sampled_from(["orders", "payments"]), st.integers(0, 40))),
        st.tuples(st.just("restore"), st.integers(1, 3)),
    ),
    max_size=14,
)


def rows(run: Any, sink: str, *names: str) -> Counter[Any]:
    return Counter(tuple(row[name] for name in names) for row in run.rows(sink))


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(["never", "require"]), actions)
def test_two_inputs_do_what_plain_python_does(mode: str, todo: list[Any]) -> None:
    model, run = Model(), ps.testing.run(job(mode), workers=2)
    try:
        for action, value in todo:
            if action == "restore":
                run.checkpoint()
                kept = run.snapshot()
                run.close()
                run = run.restore(kept, workers=value)
            elif action == "watermark":
                source, seconds = value
                run.watermark(source, seconds * SECOND)
                model.watermark(source, seconds * SECOND)
            else:
                for row in value:  # the time of a source is that of its rows, too
                    run.push(action, [row])
                    (model.order if action == "orders" else model.pay)(row)
                    model.watermark(action, row.at)
        run.checkpoint()
        assert rows(run, "out", "who", "due", "paid", "kind") == model.out
        assert rows(run, "refunds", "who", "amount") == model.refunds
        assert rows(run, "bad", "who", "price") == model.bad
        assert rows(run, "bad-right", "payer", "amount") == model.bad_right
        found = {who: (s.due, s.paid, s.check) for who, s in run.state("accounts").items()}
        accounts = {who: tuple(account) for who, account in model.accounts.items()}
        first = (0, 0, None)  # a key that is as a new one may be forgotten
        assert {k: v for k, v in found.items() if v != first} == {k: v for k, v in accounts.items() if v != first}
    finally:
        run.close()
