"""Two inputs with one state: in Python and in a file the same graph, and what is wrong is refused by file and line."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.contract.columns import Column
from penstock.contract.graph import LEFT, RIGHT, Connect, OnError, decode_graph, encode_graph
from penstock.graph import CompiledJob
from penstock.graph.describe import describe
from tests.support.compiled_jobs import compiled, loaded, refusal

ORDERS = {"id": "int64", "item": "string", "at": "timestamp[us]"}
PAYMENTS = {"order": "int64", "amount": "double", "at": "timestamp[us]"}
HERE = Path(__file__).name
ABOUT = re.escape(HERE) + r":\d+: step 'paid': "


@ps.record
class Order:
    id: int
    item: str
    at: ps.Time


@ps.record
class Payment:
    order: int
    amount: float
    at: ps.Time


@ps.record
class Paid:
    id: int
    item: str
    amount: float
    at: ps.Time


@ps.record
class Odd:
    id: int


@ps.state
class Open:
    item: str = ""
    amount: float = 0.0
    unpaid: ps.Timer


@ps.state
class Other:
    item: str = ""


@ps.state(ttl="1h")
class Brief:
    item: str = ""


def ordered(r: Order, s: Open, out: ps.Out[Paid]) -> None: ...
def paid(r: Payment, s: Open, out: ps.Out[Paid, {"odd": Odd}]) -> None: ...  # type: ignore[type-arg,misc] # noqa: F821
def late(t: ps.Time, key: Any, s: Open, out: ps.Out[Paid, {"odd": Odd}]) -> None: ...  # type: ignore[type-arg,misc] # noqa: F821
def of_other(r: Payment, s: Other, out: ps.Out[Paid]) -> None: ...
def gives_odd(r: Payment, s: Open, out: ps.Out[Odd]) -> None: ...
def odd_is_paid(r: Order, s: Open, out: ps.Out[Paid, {"odd": Paid}]) -> None: ...  # type: ignore[type-arg,misc] # noqa: F821
def plain(rows: Any, state: Any) -> Any: ...
def no_payment(r: Odd, s: Open, out: ps.Out[Paid]) -> None: ...
def brief_order(r: Order, s: Brief, out: ps.Out[Paid]) -> None: ...
def brief_payment(r: Payment, s: Brief, out: ps.Out[Paid]) -> None: ...


FILE = f"""\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: j}}
spec:
  job:
    graph:
      steps:
        - name: orders
          source:
            parquet: {{path: x}}
            eventTime: {{column: at}}
            columns: [{{name: id, type: int64}}, {{name: item, type: string}}, {{name: at, type: timestamp}}]
        - name: payments
          source:
            parquet: {{path: p}}
            eventTime: {{column: at}}
            columns: [{{name: order, type: int64}}, {{name: amount, type: double}}, {{name: at, type: timestamp}}]
        - name: paid
          inputs: [orders]
          keyBy: [id]
          connect:
            right: [payments]
            rightKeyBy: [order]
            leftFunction: {__name__}:ordered
            rightFunction: {__name__}:paid
            onError: dead-letter
            onTimer: [{{timer: unpaid, function: "{__name__}:late"}}]
        - {{name: out, sink: {{discard: {{}}}}}}
        - {{name: odd, inputs: [paid.odd], sink: {{discard: {{}}}}}}
        - {{name: bad, inputs: [paid.dead-letter], sink: {{discard: {{}}}}}}
        - {{name: bad-right, inputs: [paid.dead-letter-right], sink: {{discard: {{}}}}}}
"""


def connected(
    left: Callable[..., Any] = ordered,
    right: Callable[..., Any] = paid,
    keys: tuple[str, str] = ("id", "order"),
    times: tuple[str | None, str | None] = ("at", "at"),
    **options: Any,
) -> ps.Job:
    job = ps.Job()
    orders = job.source("orders", ps.parquet("x"), columns=ORDERS, event_time=times[0]).key_by(keys[0])
    payments = job.source("payments", ps.parquet("p"), columns=PAYMENTS, event_time=times[1]).key_by(keys[1])
    given: dict[str, Any] = {"on_timer": {"unpaid": late}, **options}
    both = ps.connect(orders, payments).process("paid", left=left, right=right, **given)
    both.sink("out", ps.discard())
    for output in job.draft.steps[2].outputs[1:]:
        both.output(output).sink(f"{output}-out", ps.discard())
    return job


def test_both_inputs_reach_one_step_with_one_state() -> None:
    job = compiled(connected(on_error="dead-letter"))
    step = job.stages[2].nodes[0]
    assert [(side.name, side.keys, side.function) for side in step.sides] == [
        (LEFT, ("id",), ordered),
        (RIGHT, ("order",), paid),
    ]
    assert [c.name for c in step.outputs["main"]] == ["id", "item", "amount", "at"]
    assert [c.name for c in step.outputs["dead-letter"]][:3] == list(ORDERS)
    assert [c.name for c in step.outputs["dead-letter-right"]][:3] == list(PAYMENTS)
    assert list(step.outputs) == ["main", "odd", "dead-letter", "dead-letter-right"]
    state = job.plan.states[2]
    assert (state.kind, state.keys) == ("connect", (Column("id", "int64"),))
    assert [c.name for c in state.columns] == ["item", "amount", "unpaid"]
    assert describe(step.parameters) == f"{__name__}:ordered and {__name__}:paid per record"


def test_the_file_and_python_say_the_same(tmp_path: Path) -> None:
    of_file, of_python = loaded(tmp_path, FILE), compiled(connected(on_error="dead-letter"))
    parameters = of_file.graph.step("paid").parameters
    assert isinstance(parameters, Connect)
    assert parameters.left.on_error is OnError.DEAD_LETTER
    assert of_file.graph.step("paid") == of_python.graph.step("paid")
    assert decode_graph(encode_graph(of_file.graph)) == of_file.graph
    assert of_file.plan.states[2] == of_python.plan.states[2]


def test_the_result_has_event_time_if_both_inputs_call_it_by_one_name() -> None:
    def windowed(times: tuple[str, str]) -> CompiledJob:
        job = ps.Job()
        columns = {**PAYMENTS, times[1]: "timestamp[us]"}
        orders = job.source("orders", ps.parquet("x"), columns=ORDERS, event_time="at").key_by("id")
        other = job.source("payments", ps.parquet("y"), columns=columns, event_time=times[1])
        both = ps.connect(orders, other.key_by("order")).process(
            "paid", left=ordered, right=gives_paid, on_timer={"unpaid": late_only}
        )
        both.key_by("id").window("minutes", "1m", n=ps.count()).sink("out", ps.discard())
        return compiled(job)

    assert windowed(("at", "at")).stages[3].nodes[0].time == "at"
    with pytest.raises(ConfigError, match="a window needs event time"):
        windowed(("at", "paid"))


def gives_paid(r: Payment, s: Open, out: ps.Out[Paid]) -> None: ...
def late_only(t: ps.Time, key: Any, s: Open, out: ps.Out[Paid]) -> None: ...


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"right": of_other}, r"ordered \(.*\) and of_other \(.*\) have the states Open and Other; both inputs share one"),
    ({"right": gives_odd}, r"emit Paid and Odd to 'main'; an output has one record"),
    ({"left": odd_is_paid}, r"emit Paid and Odd to 'odd'; an output has one record"),
    ({"left": plain}, r"left: plain \(.*\) has no types: of a step with two inputs both functions are f\(r: A"),
    ({"right": plain}, r"right: plain \(.*\) has no types"),
    ({"on_timer": {}}, "nothing is called when Open.unpaid"),
    ({"on_timer": {"unpaid": late, "gone": late}}, "unknown timer 'gone'|gone"),
    ({"compiled": "soon"}, "'soon' is not one of auto, never, require"),
]


@pytest.mark.parametrize(("options", "text"), WRONG)
def test_what_does_not_fit_is_refused_with_file_and_line(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{re.escape(__file__.rsplit('/', 1)[0])}|{HERE}:\d+: .*({text})"):
        connected(**options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"right": no_payment}, "column 'id'|no column 'id'|has no field|id"),
        ({"keys": ("id", "amount")}, "key column 'id' has type int64 on the left side, and 'amount' has type double"),
        ({"times": ("at", None)}, "unpaid: a ps.Timer needs event time"),
        ({"times": (None, "at")}, "unpaid: a ps.Timer needs event time"),
        (
            {"left": brief_order, "right": brief_payment, "on_timer": None, "times": ("at", None)},
            "the ttl of Brief .* goes by event time, and the rows have none",
        ),
    ],
)
def test_columns_and_times_are_checked_on_both_sides(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=rf"(?s){HERE}:\d+: step 'paid': .*({text})"):
        compiled(connected(**options))


def test_streams_without_keys_or_of_two_jobs_are_refused() -> None:
    job, other = ps.Job(), ps.Job()
    orders, payments = (j.source("a", ps.parquet("x"), columns=ORDERS) for j in (job, other))
    with pytest.raises(ConfigError, match=rf"{HERE}:\d+: connect: Stream has no keys: write ps.connect\(a.key_by"):
        ps.connect(orders.key_by("id"), orders)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=rf"{HERE}:\d+: connect: the two streams belong to two jobs"):
        ps.connect(orders.key_by("id"), payments.key_by("id"))
    with pytest.raises(ConfigError, match=rf"{HERE}:\d+: connect: .*each key column needs its partner"):
        ps.connect(orders.key_by("id"), orders.key_by("id", "item"))


WRONG_FILES = [
    ("rightKeyBy: [order]", "rightKeyBy: [order, at]", "keyBy has 1 columns and rightKeyBy 2"),
    (f"rightFunction: {__name__}:paid", f"rightFunction: {__name__}:of_other", "have the states Open and Other"),
    (f"            rightFunction: {__name__}:paid\n", "", "rightFunction"),
    (f"leftFunction: {__name__}:ordered", f"leftFunction: {__name__}:gone", "gone"),
    ("right: [payments]", "right: [payment]", "payment"),
    ("onError: dead-letter", "onError: drop", "drop"),
    ("          keyBy: [id]\n", "", "a step that keeps state needs keyBy|keeps state by key"),
]


@pytest.mark.parametrize(("old", "new", "text"), WRONG_FILES)
def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, old: str, new: str, text: str) -> None:
    refusal(tmp_path, FILE, old, new, text)


def test_this_module_is_found_by_its_name() -> None:
    assert sys.modules[__name__].__file__ == __file__
