"""Joins as they are written: in Python and in a file the same graph, and what is wrong is refused by file and line."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.contract.codec import ABSENT
from penstock.contract.columns import Column
from penstock.contract.graph import LEFT, RIGHT, AsOf, How, Input, Join, Step, decode_graph, encode_graph
from penstock.contract.join_times import loaded_us
from penstock.contract.plan import Partitioning
from penstock.contract.streamjob import Job, Spec, StreamJob
from penstock.graph import CompiledJob, JobFile, load_job
from penstock.graph.load import compile_draft

ORDERS = {"id": "int64", "at": "timestamp[us]", "price": "double"}
PAYMENTS = {"order": "int64", "paid": "timestamp[us]", "by": "string"}
KEPT = {"order": "int64", "since": "timestamp[us]"}
HERE = Path(__file__).name

FILE = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: j}
spec:
  job:
    graph:
      steps:
        - name: orders
          source:
            generator: {rows: 5}
            eventTime: {column: at}
            columns: [{name: id, type: int64}, {name: at, type: timestamp}, {name: price, type: double}]
        - name: payments
          source:
            generator: {rows: 5}
            eventTime: {column: paid}
            columns: [{name: order, type: int64}, {name: paid, type: timestamp}, {name: by, type: string}]
        - name: both
          inputs: [orders]
          keyBy: [id]
          join: {right: [payments], rightKeyBy: [order], within: 1m, how: left, allowedLateness: 30s}
        - name: out
          sink: {discard: {}}
"""


def streams(left: dict[str, str] = ORDERS, right: dict[str, str] = PAYMENTS) -> tuple[ps.Job, ps.Stream, ps.Stream]:
    job = ps.Job()
    orders = job.source("orders", ps.generator(rows=5), columns=left, event_time="at")
    payments = job.source("payments", ps.generator(rows=5), columns=right, event_time="paid")
    return job, orders, payments


def compiled(job: ps.Job) -> CompiledJob:
    return compile_draft(JobFile(StreamJob("j", Spec(job=Job(entrypoint="a:b"))), {}), job.draft, None)


def joined(**options: Any) -> CompiledJob:
    job, orders, payments = streams()
    given: dict[str, Any] = {"on": {"id": "order"}, "within": "1m", **options}
    orders.join("both", payments, **given).sink("out", ps.discard())
    return compiled(job)


def test_a_join_has_the_columns_of_both_and_the_key_once() -> None:
    both = joined().stages[2].nodes[0]
    names = ["id", "at", "price", "paid", "by"]
    assert [c.name for c in both.outputs["main"]] == names
    assert [c.name for c in both.outputs["late"]] == list(ORDERS)
    assert [c.name for c in both.outputs["late-right"]] == list(PAYMENTS)
    assert [(side.name, side.keys, side.time) for side in both.sides] == [
        (LEFT, ("id",), "at"),
        (RIGHT, ("order",), "paid"),
    ]


def test_the_file_and_python_say_the_same(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(FILE)
    of_file = load_job(path, None)
    of_python = joined(how="left", allowed_lateness="30s")
    inputs = (
        Input("orders", "main", Partitioning.KEY, ("id",), side=LEFT),
        Input("payments", "main", Partitioning.KEY, ("order",), side=RIGHT),
    )
    step = Step("both", Join(60_000_000, How.LEFT, 0, 30_000_000), inputs)
    assert of_file.graph.step("both") == of_python.graph.step("both") == step
    assert decode_graph(encode_graph(of_file.graph)) == of_file.graph
    assert of_file.plan.states[2] == of_python.plan.states[2]
    assert [(c.name, c.of) for c in of_file.plan.states[2].columns] == [
        ("at", LEFT),
        ("price", LEFT),
        ("paid", RIGHT),
        ("by", RIGHT),
    ]


INTERVAL = FILE.replace("within: 1m", "lower: -5m, upper: 10m")


def test_an_interval_in_the_file_is_that_of_python(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(INTERVAL)
    of_file = load_job(path, None)
    job, orders, payments = streams()
    both = orders.join_interval(
        "both", payments, on={"id": "order"}, lower="-5m", upper="10m", how="left", allowed_lateness="30s"
    )
    both.sink("out", ps.discard())
    of_python = compiled(job)
    join = Join(None, How.LEFT, 0, 30_000_000, None, -300_000_000, 600_000_000)
    assert of_file.graph.step("both").parameters == of_python.graph.step("both").parameters == join
    assert decode_graph(encode_graph(of_file.graph)) == of_file.graph
    assert of_file.plan.states[2] == of_python.plan.states[2]
    assert of_file.plan.states[2].times == (-300_000_000, 600_000_000, 1_000)
    assert [c.name for c in of_file.stages[2].nodes[0].outputs["main"]] == ["id", "at", "price", "paid", "by"]


WRONG_INTERVALS: list[tuple[dict[str, Any], str]] = [
    ({"lower": "2m", "upper": "1m"}, "step 'both': lower 2m is above upper 1m: no row has a partner"),
    ({"lower": "-1m", "upper": "-90s"}, "step 'both': lower -1m is above upper -1m30s: no row has a partner"),
    ({"lower": "soon"}, "lower: 'soon' is no duration: write a number and us, ms, s, m, h or d, like 10m or -5m"),
    ({"upper": "--5m"}, "upper: '--5m' is no duration"),
    ({"upper": 5}, "upper: "),
    ({"how": "outer"}, "how='outer' is not one of inner, left, right, full"),
    ({"allowed_lateness": "-1s"}, "allowed_lateness: '-1s' is no duration"),
    ({"on": {"id": "by"}}, "'id' has type int64 on the left side, and 'by' has type string on the right side"),
    ({"on": []}, 'write on="id"'),
]


@pytest.mark.parametrize(("options", "text"), WRONG_INTERVALS)
def test_a_wrong_interval_is_refused_with_file_and_line(options: dict[str, Any], text: str) -> None:
    given: dict[str, Any] = {"on": {"id": "order"}, "lower": "-5m", "upper": "10m", **options}
    found = refused(lambda a, b: a.join_interval("both", b, **given))
    assert text in found


WRONG_FILES = [
    ("lower: -5m, upper: 10m", "lower: 10m, upper: -5m", "lower 10m is above upper -5m"),
    ("lower: -5m, upper: 10m", "lower: -5m", "a join needs within, or lower and upper"),
    ("lower: -5m, upper: 10m", "lower: -5m, upper: 10m, within: 1m", "a join needs within, or lower and upper"),
    ("lower: -5m, upper: 10m", "lower: -5m, upper: 10m, offset: 1s", "offset shifts windows"),
    ("lower: -5m", "lower: '-'", "'-' does not fit: a duration such as 10m, or -5m"),
    ("lower: -5m", "lower: soon", "'soon' does not fit: a duration such as 10m, or -5m"),
    ("lower: -5m", "lower: 5", "expected a text, got 5"),
]


@pytest.mark.parametrize(("old", "new", "text"), WRONG_FILES)
def test_a_wrong_interval_of_a_file_is_refused_with_its_line(tmp_path: Path, old: str, new: str, text: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(INTERVAL.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        load_job(path, None)
    assert "job.yaml:21" in str(caught.value)
    assert text in str(caught.value)


def test_equal_column_names_of_an_interval_need_a_function() -> None:
    right = {**PAYMENTS, "price": "double"}
    found = refused(lambda a, b: a.join_interval("both", b, on={"id": "order"}, lower="0s", upper="1m"), ORDERS, right)
    assert "both sides have a column 'price'" in found
    job, orders, payments = streams(ORDERS, right)
    both = orders.join_interval(
        "both", payments, add, on={"id": "order"}, lower="0s", upper="1m", columns={"sum": "double"}
    )
    both.sink("out", ps.discard())
    assert [c.name for c in compiled(job).stages[2].nodes[0].outputs["main"]] == ["sum"]


def add(left: object, right: object) -> object:
    return left, right


def test_a_function_of_the_file_is_that_of_python(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    function = f"function: '{__name__}:add', per: record, columns: [{{name: sum, type: int64}}]"
    path.write_text(FILE.replace("within: 1m", f"within: 1m, {function}"))
    of_file = load_job(path, None).graph.step("both")
    job, orders, payments = streams()
    both = orders.join(
        "both",
        payments,
        add,
        on={"id": "order"},
        within="1m",
        how="left",
        allowed_lateness="30s",
        columns={"sum": "int64"},
        per="record",
    )
    both.sink("out", ps.discard())
    found = compiled(job)
    assert of_file == found.graph.step("both")
    assert [c.name for c in found.stages[2].nodes[0].outputs["main"]] == ["sum"]
    assert found.stages[2].nodes[0].function is add


def test_several_keys_and_keys_of_equal_names() -> None:
    columns = {"id": "int64", "day": "string", "paid": "timestamp[us]"}
    job, orders, payments = streams({**ORDERS, "day": "string"}, columns)
    both = orders.join("both", payments, on=["id", "day"], within="1m", how="full")
    both.late_right.sink("late", ps.discard())
    both.sink("out", ps.discard())
    assert [c.name for c in compiled(job).stages[2].nodes[0].outputs["main"]] == ["id", "at", "price", "day", "paid"]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"on": {"id": "by"}}, "'id' has type int64 on the left side, and 'by' has type string on the right side"),
    ({"on": {"prize": "order"}}, "key column 'prize' does not exist: unknown column 'prize': did you mean 'price'?"),
    ({"on": {"id": "oder"}}, "key column 'oder' does not exist: unknown column 'oder': did you mean 'order'?"),
    ({"on": []}, 'write on="id"'),
    ({"within": "0s"}, "within='0s': a window cannot be empty"),
    ({"within": "soon"}, "within: "),
    ({"how": "outer"}, "how='outer' is not one of inner, left, right, full"),
]


@pytest.mark.parametrize(("options", "text"), WRONG)
def test_a_wrong_join_is_refused_with_file_and_line(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        joined(**options)
    assert text in str(caught.value)
    assert HERE in str(caught.value)
    assert "step 'both'" in str(caught.value) or "within: " in str(caught.value)


def refused(build: Callable[[ps.Stream, ps.Stream], ps.Stream], *columns: dict[str, str]) -> str:
    job, orders, payments = streams(*columns)

    def load() -> CompiledJob:
        build(orders, payments).sink("out", ps.discard())
        return compiled(job)

    with pytest.raises(ConfigError) as caught:
        load()
    assert HERE in str(caught.value)
    return str(caught.value)


def test_equal_column_names_are_refused() -> None:
    found = refused(
        lambda a, b: a.join("both", b, on={"id": "order"}, within="1m"), ORDERS, {**PAYMENTS, "price": "double"}
    )
    assert "both sides have a column 'price': rename one of them in a map step before the join" in found


def test_two_steps_of_one_name_are_refused() -> None:
    assert "a step named 'orders' exists already" in refused(
        lambda a, b: a.join("orders", b, on={"id": "order"}, within="1m")
    )


def test_rows_without_event_time_are_refused() -> None:
    def build(a: ps.Stream, b: ps.Stream) -> ps.Stream:
        words = b.split("words", "by", into="order")
        return a.map("text", len, columns={"id": "string", "at": "timestamp[us]"}).join(
            "both", words, on={"id": "order"}, within="1m"
        )

    assert "a join needs event time, and the rows of its right side have none: name the column" in refused(build)


def test_a_stream_of_another_job_is_refused() -> None:
    other = streams()[2]
    found = refused(lambda a, _: a.join("both", other, on={"id": "order"}, within="1m"))
    assert "must be another stream of the same job" in found


def test_a_file_with_another_number_of_keys_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(FILE.replace("[order]", "[order, paid]"))
    with pytest.raises(ConfigError, match=r"job\.yaml:18: step 'both': keyBy has 1 columns and rightKeyBy 2"):
        load_job(path, None)


def test_a_file_with_an_empty_window_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(FILE.replace("within: 1m", "within: 0s"))
    with pytest.raises(ConfigError, match=r"job\.yaml:21: .*join\.within"):
        load_job(path, None)


def test_columns_that_only_the_side_has_are_known() -> None:
    assert Column("by", "string") in joined().edges[1].columns


EVENT_TIMES: list[tuple[dict[str, Any], int]] = [
    ({"how": "inner"}, 30),
    ({"how": "left"}, 630),
    ({"how": "right"}, 330),
    ({"how": "full"}, 630),
    ({"how": "left", "lower": "-5m", "upper": "-1m"}, 30),
    ({"how": "right", "lower": "1m"}, 30),
]


@pytest.mark.parametrize(("options", "held_s"), EVENT_TIMES)
def test_the_time_of_an_interval_join_is_held_back_by_what_its_results_can_lie_behind(
    options: dict[str, Any], held_s: int
) -> None:
    job, orders, payments = streams()
    given: dict[str, Any] = {"on": {"id": "order"}, "lower": "-5m", "upper": "10m", "allowed_lateness": "30s"}
    both = orders.join_interval("both", payments, event_time="joined", **(given | options))
    both.key_by("id").window("counts", "1m", n=ps.count()).sink("out", ps.discard())
    found = compiled(job)
    assert found.stages[2].plan.held_us == held_s * 1_000_000
    assert found.stages[2].nodes[0].outputs["main"][-1] == Column("joined", "timestamp[us]")
    assert found.stages[3].nodes[0].time == "joined"


def test_a_window_join_holds_its_time_back_by_its_lateness_if_its_result_has_a_time() -> None:
    assert joined(allowed_lateness="30s", event_time="joined").stages[2].plan.held_us == 30_000_000
    assert joined(allowed_lateness="30s").stages[2].plan.held_us is ABSENT
    assert joined(event_time="joined").stages[2].plan.held_us is ABSENT


def test_the_event_time_of_a_result_is_a_column_of_its_own() -> None:
    with pytest.raises(ConfigError, match="the result has a column 'price': give its event time"):
        joined(event_time="price")
    with pytest.raises(ConfigError, match="names that begin with __ belong to the engine"):
        joined(event_time="__time")


def test_a_window_behind_a_join_without_a_time_says_how_to_get_one() -> None:
    def build(orders: ps.Stream, payments: ps.Stream) -> ps.Stream:
        both = orders.join("both", payments, on={"id": "order"}, within="1m")
        return both.key_by("id").window("counts", "1m", n=ps.count())

    assert "the result of a join has one that its event_time (eventTime) names" in refused(build)


def test_what_a_checkpoint_has_of_a_join_does_not_depend_on_the_event_time_of_its_result() -> None:
    assert joined().plan.states == joined(event_time="joined").plan.states
    assert joined().plan.state_fingerprint == joined(event_time="joined").plan.state_fingerprint


def test_a_table_in_the_file_is_that_of_python(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(FILE.replace("within: 1m", "asOf: event"))
    of_file = load_job(path, None)
    job, orders, payments = streams()
    both = orders.join_table("both", payments, on={"id": "order"}, how="left", allowed_lateness="30s")
    both.key_by("id").window("counts", "1m", n=ps.count()).sink("out", ps.discard())
    of_python = compiled(job)
    join = Join(None, How.LEFT, 0, 30_000_000, as_of=AsOf.EVENT)
    assert of_file.graph.step("both").parameters == of_python.graph.step("both").parameters == join
    assert of_file.plan.states[2] == of_python.plan.states[2]
    assert of_python.stages[3].nodes[0].time == "at", "the result has the event time of the left row"
    assert of_python.stages[2].plan.held_us == 30_000_000
    assert [c.name for c in of_file.stages[2].nodes[0].outputs["main"]] == ["id", "at", "price", "paid", "by"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"how": "full"}, "how is full: rows of a table are not emitted by themselves, so it must be inner or left"),
        ({"as_of": "then"}, "as_of='then' is not one of event, now"),
        ({"load_until": "2026-01-01"}, "load until: only a table as it is now (as_of, asOf: now) is loaded first"),
        ({"as_of": "now", "load_until": "soon"}, "load until: 'soon' is no time like 2026-01-01T12:00:00"),
        ({"as_of": "now", "allowed_lateness": "1s"}, "allowed lateness: a row is joined when it comes"),
        ({"as_of": "now", "how": "right"}, "how is right: rows of a table are not emitted by themselves"),
        ({"on": {"id": "by"}}, "'id' has type int64 on the left side, and 'by' has type string on the right side"),
    ],
)
def test_a_wrong_table_join_is_refused_with_file_and_line(options: dict[str, Any], text: str) -> None:
    given: dict[str, Any] = {"on": {"id": "order"}, **options}
    assert text in refused(lambda a, b: a.join_table("both", b, **given))


@pytest.mark.parametrize(
    ("times", "text"),
    [
        ("asOf: event, within: 1m", "a join needs within, or lower and upper, or asOf"),
        ("asOf: event, lower: 1s", "a join needs within, or lower and upper, or asOf"),
        ("asOf: event, offset: 1s", "offset shifts windows"),
        ("asOf: never", "unknown value 'never'"),
        ("asOf: event, loadUntil: '2026-01-01'", "load until: only a table as it is now"),
        ("asOf: now", "allowed lateness: a row is joined when it comes"),
        ("asOf: event, eventTime: joined", "the result of a join with a table has the event time of the left row"),
    ],
)
def test_a_wrong_table_of_a_file_is_refused_with_its_line(tmp_path: Path, times: str, text: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(FILE.replace("within: 1m", times))
    with pytest.raises(ConfigError) as caught:
        load_job(path, None)
    assert "job.yaml:21" in str(caught.value)
    assert text in str(caught.value)


def test_a_table_as_it_is_now_needs_no_time_and_holds_none_back(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(FILE.replace("within: 1m", "asOf: now").replace(", allowedLateness: 30s", ""))
    of_file = load_job(path, None)
    job, orders, payments = streams()
    both = orders.join_table("both", payments, on={"id": "order"}, how="left", as_of="now")
    both.key_by("id").window("counts", "1m", n=ps.count()).sink("out", ps.discard())
    of_python = compiled(job)
    join = Join(None, How.LEFT, as_of=AsOf.NOW)
    assert of_file.graph.step("both").parameters == of_python.graph.step("both").parameters == join
    assert of_file.plan.states[2] == of_python.plan.states[2]
    stage = of_python.stages[2].plan
    assert (stage.aside, stage.varying, stage.held_us) == ((1,), ("both",), ABSENT)
    assert of_python.stages[3].nodes[0].time == "at", "the result has the event time of the left row"
    assert list(of_python.stages[2].nodes[0].outputs) == ["main"], "no row is late"


def test_a_table_without_an_end_says_up_to_when_it_is_loaded() -> None:
    def build(orders: ps.Stream, table: ps.Stream, **until: Any) -> ps.Stream:
        endless = orders.job.source(
            "endless", ps.generator(), columns={"order": "int64", "since": "timestamp[us]"}, event_time="since"
        )
        table.sink("payments-out", ps.discard())
        return orders.join_table(
            "both", endless.map("same", len, columns=KEPT), on={"id": "order"}, as_of="now", **until
        )

    assert "the table is loaded to its end first, and source 'endless' has no end: say up to which" in refused(build)
    job, orders, payments = streams()
    build(orders, payments, load_until=datetime(2026, 1, 1, 12, tzinfo=UTC)).sink("out", ps.discard())
    join = compiled(job).graph.step("both").parameters
    assert isinstance(join, Join)
    assert loaded_us(str(join.load_until)) == loaded_us("2026-01-01T13:00+01:00") == loaded_us("2026-01-01 12:00")


def test_a_time_up_to_which_a_table_is_loaded_needs_event_time() -> None:
    def build(orders: ps.Stream, table: ps.Stream) -> ps.Stream:
        untimed = table.map("untimed", len, columns={"order": "int64"})
        return orders.join_table("both", untimed, on={"id": "order"}, as_of="now", load_until="2026-01-01")

    assert "load until: the rows of the table have no event time" in refused(build)
