"""A record that a state keeps is read as its types have it: in the batch that wrote it, and in every later one."""

from typing import Any

import pytest

import penstock as ps


@ps.record
class Part:
    near: ps.float32 = 0.0
    number: int = 0
    kind: ps.Enum["NEW", "ODD"] = "NEW"  # noqa: F821
    pair: tuple[ps.float32, bool] = (0.0, False)


@ps.record
class Row:
    key: str
    part: int


@ps.record
class Shown:
    kept: str


@ps.state
class Kept:
    by_name: ps.Map[str, Part]
    items: ps.List[Part]
    one: Part = Part(near=0.1, kind="ODD")
    last: Part | None = None


GIVEN: list[Any] = [Part(), Part(0.1, 3.0, "ODD", (0.1, True)), Part(1, True, "NEW", (2, 1))]  # type: ignore[arg-type]
KEPT = [
    "Part(near=0.0, number=0, kind='NEW', pair=(0.0, False))",
    "Part(near=0.10000000149011612, number=3, kind='ODD', pair=(0.10000000149011612, True))",
    "Part(near=1.0, number=1, kind='NEW', pair=(2.0, True))",
]


def keep(r: Row, s: Kept, out: ps.Out[Shown]) -> None:
    if r.part >= 0:
        given = GIVEN[r.part]
        s.by_name["a"] = s.one = s.last = given
        s.items.append(given)
    parts = s.by_name["a"], s.items[-1], s.one, s.last
    out.emit(Shown("\n".join({f"{part}" for part in parts})))


def shown(*batches: list[Row]) -> list[str]:
    job = ps.Job()
    rows = job.source("rows", ps.parquet("x"), columns={"key": "string", "part": "int64"})
    rows.key_by("key").process("keep", keep).sink("out", ps.discard())
    with ps.testing.run(job) as t:
        for batch in batches:
            t.push("rows", batch)
        t.checkpoint()
        return [row["kept"] for row in t.rows("out")]


@pytest.mark.parametrize("part", range(len(GIVEN)))
def test_a_record_is_read_in_the_types_of_its_fields(part: int) -> None:
    write, read = Row("ann", part), Row("ann", -1)
    assert shown([write, read]) == [KEPT[part]] * 2
    assert shown([write], [read]) == [KEPT[part]] * 2
