"""A node: an instance for each task, started before the first row, read-only then, stopped with the task."""

import logging
from typing import Any, ClassVar

import pytest

import penstock as ps
from penstock.testing import ABORT

ROWS = [{"n": n} for n in range(6)]


class Times(ps.SeqNode):
    """Sends each row so many times."""

    columns: ClassVar = {"n": "int64", "of": "int64"}
    lives: ClassVar[list[tuple[str, int]]] = []

    def __init__(self, times: int) -> None:
        self.times = times
        self.seen: list[int] = []

    def on_start(self) -> None:
        self.lives.append(("start", id(self)))

    def consume(self, x: dict[str, Any]) -> None:
        self.seen.append(x["n"])
        for _ in range(self.times):
            self.send_next({"n": x["n"], "of": id(self)})

    def on_stop(self) -> None:
        self.lives.append(("stop", id(self)))


class Counting(ps.SeqNode):
    columns: ClassVar = {"n": "int64"}

    def on_start(self) -> None:
        self.total = 0

    def consume(self, x: dict[str, Any]) -> None:
        self.total += x["n"]


class Deleting(Counting):
    def consume(self, x: dict[str, Any]) -> None:
        del self.total


class Early(ps.SeqNode):
    columns: ClassVar = {"n": "int64"}

    def on_start(self) -> None:
        self.send_next({"n": 0})

    def consume(self, x: dict[str, Any]) -> None:
        self.send_next(x)


class Returning(Early):
    def on_start(self) -> None:
        pass

    def consume(self, x: dict[str, Any]) -> None:
        return x  # type: ignore[return-value]


class Indirect(Returning):
    """Sends a row when it stops, by a method, so that the class does not show it."""

    def consume(self, x: dict[str, Any]) -> None:
        self.send_next(x)

    def flush(self) -> None:
        self.send_next({"n": -1})

    def on_stop(self) -> None:
        self.flush()


def run(pattern: ps.Pipeline | ps.Farm, rows: list[Any]) -> ps.Result:
    job = ps.Job()
    source = job.source("rows", ps.parquet("none"), columns={"n": "int64"})
    pattern.on(source).sink("out", ps.discard())
    return ps.run(job, inputs={"rows": rows}, collect=True, workers=2)


def test_each_task_has_a_node_of_its_own_which_is_started_and_stopped() -> None:
    Times.lives.clear()
    declared = Times(2)
    result = run(ps.Farm(declared, 3, on="n"), ROWS)
    assert sorted(row["n"] for row in result["out"]) == sorted([*range(6), *range(6)])
    ran = {row["of"] for row in result["out"]}
    assert len(ran) > 1
    assert id(declared) not in ran
    assert declared.seen == [], "tasks share no list of the declared node"
    assert sorted(Times.lives) == sorted((what, node) for what in ("start", "stop") for node in ran)


def test_nodes_begin_anew_after_a_failure() -> None:
    Times.lives.clear()
    result = run(ps.Pipeline(Times(1)), [*ROWS[:3], ABORT, *ROWS[3:]])
    assert sorted(row["n"] for row in result["out"]) == list(range(6))
    assert [what for what, _ in Times.lives].count("start") == [what for what, _ in Times.lives].count("stop")
    assert result.restarts == 1


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (Counting(), r"Counting.total: attributes of a node are read-only after on_start"),
        (Deleting(), r"Deleting.total: attributes of a node are read-only after on_start"),
        (Early(), r"step 'Early \(on_start\)': ConfigError: Early: send_next was called outside of consume"),
        (Returning(), "consume returned dict; it sends rows with send_next"),
    ],
    ids=["assigns", "deletes", "sends at the start", "returns"],
)
def test_what_a_node_may_not_do_is_an_error_with_the_users_line(node: ps.SeqNode, message: str) -> None:
    with pytest.raises(ps.UserCodeError, match=message):
        run(ps.Pipeline(node), ROWS)


def test_a_row_that_is_sent_at_the_end_is_refused_and_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        result = run(ps.Pipeline(Indirect()), ROWS)
    assert sorted(row["n"] for row in result["out"]) == list(range(6))
    failed = [r.getMessage() for r in caplog.records if "event=on_stop_failed" in r.getMessage()]
    assert failed
    assert "node=Indirect error=ConfigError: Indirect: send_next was called outside of consume" in failed[0]


def test_a_node_can_be_called_in_a_test() -> None:
    node = Times(2)
    node.start()
    assert [row["n"] for row in node({"n": 7})] == [7, 7]
    assert node.seen == [7]
