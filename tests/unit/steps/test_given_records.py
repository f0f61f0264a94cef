"""What a function gives is taken as it is then, and what it gets is as it came: no row depends on its batch."""

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

import penstock as ps
from penstock.steps.kept_records import kept_record
from penstock.testing import ListSource, run

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
COLUMNS = {"k": "string", "n": "int64", "at": "timestamp[us, tz=UTC]"}
ROWS: list[dict[str, Any]] = [{"k": "a", "n": n, "at": NOON} for n in range(3)]
GIVEN: dict[str, Any] = {}


def the_same_dict(row: dict[str, Any]) -> dict[str, Any]:
    GIVEN["tags"] = [*GIVEN.get("tags", []), row["n"]]
    return GIVEN


def grown(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    tags: list[int] = []
    for n in range(row["n"]):
        tags.append(n)
        row["tags"] = tags
        yield {"tags": row["tags"]}


def state_itself(_: dict[str, Any], state: dict[str, Any]) -> list[Any]:
    state["n"] += 1
    return [state]


def emitted_again(_key: Any, _window: Any, rows: Any, out: Any) -> None:
    given: dict[str, Any] = {}
    for n in rows["n"].to_pylist():
        given["v"] = n
        out.emit(given)


async def shared(row: dict[str, Any]) -> dict[str, Any]:
    GIVEN["of"] = row["n"]
    return GIVEN


class Sends(ps.SeqNode):
    columns: ClassVar = {"n": "int64"}

    def consume(self, x: dict[str, Any]) -> None:
        for n in range(2):
            x["n"] += 10 * n
            self.send_next({"n": x["n"]} if n else x)


Steps = Callable[[ps.Stream], ps.Stream]
LISTS = {"tags": "list<int64>"}
CASES: dict[str, tuple[Steps, list[Any]]] = {
    "map": (lambda s: s.map("m", the_same_dict, per="record", columns=LISTS), [[0], [0, 1], [0, 1, 2]]),
    "flat map": (lambda s: s.flat_map("m", grown, per="record", columns=LISTS), [[0], [0], [0, 1]]),
    "process": (
        lambda s: s.key_by("k").process("m", state_itself, per="record", state={"n": "int64"}, columns={"n": "int64"}),
        [1, 2, 3],
    ),
    "whole window": (
        lambda s: (
            s.key_by("k")
            .window("m", "1m", whole=emitted_again, columns={"v": "int64"})
            .map("v", lambda b: b.select(["v"]), columns={"v": "int64"})
        ),
        [0, 1, 2],
    ),
    "enrich": (
        lambda s: (
            s.key_by("k")
            .enrich("m", shared, columns={"of": "int64"})
            .map("v", lambda b: b.select(["of"]), columns={"of": "int64"})
        ),
        [0, 1, 2],
    ),
}


def job_of(steps: Steps) -> Callable[[Any], ps.Job]:
    def job(_: Any) -> ps.Job:
        made = ps.Job()
        steps(made.source("in", ps.parquet("in"), columns=COLUMNS, event_time="at")).sink("out", ps.parquet("out"))
        return made

    return job


@pytest.mark.parametrize("name", CASES)
def test_a_row_is_what_it_was_when_it_was_given(name: str) -> None:
    steps, wanted = CASES[name]
    GIVEN.clear()
    with run(job_of(steps), {}, inputs={"in": ROWS}) as t:
        t.run()
        assert [value for row in t.rows("out") for value in row.values()] == wanted


@pytest.mark.parametrize("name", [name for name in CASES if name != "whole window"])  # that emits at the end
def test_rows_that_come_alone_give_the_same(name: str) -> None:
    steps, wanted = CASES[name]
    GIVEN.clear()
    with run(job_of(steps), {}, inputs={"in": ListSource(columns=COLUMNS, ends=False)}) as t:
        for row in ROWS:
            t.push("in", [row])
        t.checkpoint()
        assert [value for row in t.rows("out") for value in row.values()] == wanted


def test_a_copy_is_one_at_any_depth() -> None:
    deep: dict[str, Any] = {"a": [{"b": [1]}], "c": ({"d": [1]},), "e": bytearray(b"x"), "f": {"g": {1}}}
    kept = kept_record(deep)
    deep["a"][0]["b"].append(2)
    deep["c"][0]["d"].append(2)
    deep["e"].extend(b"y")
    deep["f"]["g"].add(2)
    assert kept == {"a": [{"b": [1]}], "c": ({"d": [1]},), "e": bytearray(b"x"), "f": {"g": {1}}}


def test_a_row_that_is_called_again_comes_as_it_came() -> None:
    def doubled(row: dict[str, Any], state: dict[str, Any]) -> list[dict[str, Any]]:
        row["n"] *= 2
        state["total"] += row["n"]
        return [{"n": 0.5 if row["n"] == 4 else row["n"], "total": state["total"]}]

    def job(_: Any) -> ps.Job:
        made = ps.Job()
        rows = made.source("in", ps.parquet("in"), columns={"k": "string", "n": "int64"}).key_by("k")
        out = rows.process(
            "p",
            doubled,
            per="record",
            state={"total": "int64"},
            columns={"n": "int64", "total": "int64"},
            on_error="dead-letter",
        )
        out.sink("out", ps.parquet("out"))
        out.dead_letter.sink("bad", ps.parquet("bad"))
        return made

    with run(job, {}, inputs={"in": [{"k": "a", "n": n} for n in (1, 2, 1, 1)]}) as t:
        t.run()
        assert t.rows("out") == [{"n": 2, "total": 2}, {"n": 2, "total": 4}, {"n": 2, "total": 6}]
        assert [row["n"] for row in t.rows("bad")] == [2]


def test_a_further_attempt_gets_the_row_as_it_came() -> None:
    tries: list[str] = []

    async def taken(row: dict[str, Any]) -> dict[str, int]:
        tries.append(row.pop("k"))
        if len(tries) == 1:
            raise OSError("away")
        return {"w": len(tries[-1])}

    def job(_: Any) -> ps.Job:
        made = ps.Job()
        rows = made.source("in", ps.parquet("in"), columns={"k": "string"}).key_by("k")
        retries = ps.retries(2, "1ms", on=(OSError,))
        rows.enrich("e", taken, columns={"w": "int64"}, retries=retries).sink("out", ps.parquet("out"))
        return made

    with run(job, {}, inputs={"in": [{"k": "abc"}]}) as t:
        t.run()
        assert t.rows("out") == [{"k": "abc", "w": 3}]


def test_a_node_may_go_on_with_a_row_that_it_has_sent() -> None:
    def job(_: Any) -> ps.Job:
        made = ps.Job()
        rows = made.source("in", ps.parquet("in"), columns={"n": "int64"})
        ps.Pipeline(Sends()).on(rows).sink("out", ps.parquet("out"))
        return made

    with run(job, {}, inputs={"in": [{"n": 1}, {"n": 2}]}) as t:
        t.run()
        assert [row["n"] for row in t.rows("out")] == [1, 11, 2, 12]
