"""The judges of publishers refuse made-up runs whose output is wrong."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from penstock.base.errors import ConfigError
from penstock.contract.latest import Unpublished
from sim.kernel.forks import in_a_fork
from sim.kernel.kernel import Violation
from sim.publishers.publisher_scenarios import SCENARIOS
from sim.publishers.targets import TopicTarget
from sim.publishers.world import JudgedEpoch, PublisherWorld

Rows = Sequence[Mapping[str, Any]]


def violation(judged: Callable[[PublisherWorld], object], monkeypatch: pytest.MonkeyPatch, **wrong: Any) -> str:
    """Return what is refused of a run with a topic of which some methods are ``wrong``."""

    def run() -> str:
        for name, method in wrong.items():
            monkeypatch.setattr(TopicTarget, name, method)
        world = PublisherWorld(SCENARIOS["plain-topic"], 0)
        try:
            judged(world)
        except Violation as error:
            return str(error)
        finally:
            world.close()
        return ""

    return in_a_fork(run)


def test_a_run_without_a_fault_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    assert violation(PublisherWorld.run, monkeypatch) == ""


@pytest.mark.parametrize(
    "changed",
    [
        lambda rows: [*rows, {"number": 999, "word": "x"}],
        lambda rows: [{**row, "word": "y"} if row["number"] == 1 else row for row in rows],
    ],
    ids=["a row of nobody", "another value"],
)
def test_a_row_that_nobody_wrote_is_noticed(changed: Callable[[Rows], Rows], monkeypatch: pytest.MonkeyPatch) -> None:
    right = TopicTarget.rows
    said = violation(PublisherWorld.run, monkeypatch, rows=lambda target: changed(right(target)))
    assert "is visible with" in said


def test_rows_that_the_target_takes_must_not_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    right = TopicTarget.staged

    def refuse(_: object) -> None:
        raise ConfigError("too large")

    def staged(target: TopicTarget) -> Any:
        made = right(target)
        made.encode = refuse  # type: ignore[method-assign,assignment]
        return made

    assert "refused that the target takes" in violation(PublisherWorld.run, monkeypatch, staged=staged)


@pytest.mark.parametrize(("said", "skips", "wrong"), [(2, 1, False), (1, 1, True), (1, 2, False), (3, 2, True)])
def test_all_rows_that_are_left_out_are_counted(
    said: int, skips: int, wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of two refused rows is visible. A second try may not know what the first one has left out."""
    epoch = JudgedEpoch((1, 2), frozenset({1, 2}), Unpublished.SKIP)
    found = violation(lambda world: world._check_count(epoch, said, skips), monkeypatch)
    assert bool(found) == wrong
