"""Windows behind windows and joins: no result is late, however long the step before them has waited."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest

import penstock as ps
from penstock.testing import ListSource

NOON = datetime(2026, 1, 1, 12)  # noqa: DTZ001  as Arrow gives times without a zone
LEFT, RIGHT = {"k": "int64", "at": "timestamp[us]"}, {"key": "int64", "paid": "timestamp[us]"}
LEFTS: list[dict[str, Any]] = [{"k": i % 3, "at": NOON + timedelta(seconds=7 * i)} for i in range(200)]
RIGHTS: list[dict[str, Any]] = [{"key": i % 4, "paid": NOON + timedelta(seconds=11 * i)} for i in range(120)]
MINUTE = timedelta(minutes=1)


def streams() -> tuple[ps.Job, ps.Stream, ps.Stream]:
    job = ps.Job()
    left = job.source("left", ListSource(LEFTS, columns=LEFT), columns=LEFT, event_time="at", batch_rows=1)
    right = job.source("right", ListSource(RIGHTS, columns=RIGHT), columns=RIGHT, event_time="paid", batch_rows=1)
    return job, left, right


def counted(job: ps.Job, stream: ps.Stream, key: str) -> Counter[Any]:
    """Count rows by key and minute; fail if one is late."""
    counts = stream.key_by(key).window("counts", "1m", n=ps.count())
    counts.sink("out", ps.discard())
    counts.late.sink("late", ps.discard())
    result = ps.run(job, collect=True)
    assert not result["late"].to_arrow().num_rows
    return Counter({(row[key], row["window_start"]): row["n"] for row in result["out"]})


def minute(time: datetime) -> datetime:
    return time - (time - NOON) % MINUTE


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
@pytest.mark.parametrize(("lower", "upper"), [(-60, 90), (20, 200), (-200, -20)])
def test_a_result_of_an_interval_join_has_the_time_of_its_later_row(how: Any, lower: int, upper: int) -> None:
    job, left, right = streams()
    both = left.join_interval(
        "both",
        right,
        on={"k": "key"},
        how=how,
        event_time="time",
        allowed_lateness="5m",
        lower=f"{lower}s",
        upper=f"{upper}s",
    )
    expected: Counter[Any] = Counter()
    partners = [
        (a, b) for a in LEFTS for b in RIGHTS
        if a["k"] == b["key"] and lower <= (b["paid"] - a["at"]).total_seconds() <= upper
    ]  # fmt: skip
    expected.update((a["k"], minute(max(a["at"], b["paid"]))) for a, b in partners)
    if how in ("left", "full"):
        expected.update((a["k"], minute(a["at"])) for a in LEFTS if a not in [p[0] for p in partners])
    if how in ("right", "full"):
        expected.update((b["key"], minute(b["paid"])) for b in RIGHTS if b not in [p[1] for p in partners])
    assert counted(job, both, "k") == expected


@pytest.mark.parametrize("lateness", ["0s", "5m"])
def test_a_result_of_a_window_join_has_the_last_time_of_its_window(lateness: str) -> None:
    job, left, right = streams()
    both = left.join(
        "both", right, pair, on={"k": "key"}, within="1m", columns={"k": "int64"}, per="record", event_time="time",
        allowed_lateness=lateness,
    )  # fmt: skip
    windows: Counter[Any] = Counter((a["k"], minute(a["at"])) for a in LEFTS)
    others = Counter((b["key"], minute(b["paid"])) for b in RIGHTS)
    assert counted(job, both, "k") == Counter({w: n * others[w] for w, n in windows.items() if others[w]})


def pair(left: dict[str, Any], _: dict[str, Any]) -> dict[str, Any]:
    return {"k": left["k"]}


@pytest.mark.parametrize("shape", ["1m", ps.sliding("2m", "1m"), ps.session("10s")])
def test_windows_that_wait_for_late_rows_are_not_late_for_the_next_window(shape: Any) -> None:
    def total(lateness: str) -> int:
        job = ps.Job()
        left = job.source("left", ListSource(LEFTS, columns=LEFT), columns=LEFT, event_time="at", batch_rows=1)
        first = left.key_by("k").window("first", shape, allowed_lateness=lateness, n=ps.count())
        return counted(job, first, "k").total()

    assert total("10m") == total("0s") > 20
