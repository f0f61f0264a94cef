from pathlib import Path
from typing import Any

import pytest

from bench.draw import pictures
from bench.draw.bars import values_of
from bench.draw.sweep import lines, x_axis


def run(name: str, rate: float) -> dict[str, object]:
    return {"name": name, "results": {"rows_per_s": rate}}


def test_a_field_that_follows_the_axis_makes_no_lines() -> None:
    runs = [
        run("sweep payload=32,workers=1", 9.0),
        run("sweep payload=32,workers=2", 8.0),
        run("sweep payload=256,workers=1,batch_rows=4096", 5.0),
        run("sweep payload=256,workers=2,batch_rows=4096", 4.0),
        run("sweep payload=1024,workers=1,batch_rows=1024", 3.0),
        run("sweep payload=1024,workers=2,batch_rows=1024", 2.0),
    ]
    assert x_axis(runs) == "payload"
    assert x_axis([run("texts repeat=40", 1.0), run("texts repeat=20,replayed=True", 2.0)]) is None
    assert lines(runs, "payload", "rows_per_s") == {
        "workers 1": [(32.0, 9.0), (256.0, 5.0), (1024.0, 3.0)],
        "workers 2": [(32.0, 8.0), (256.0, 4.0), (1024.0, 2.0)],
    }


def test_variants_of_a_cell_are_drawn_as_a_group() -> None:
    runs = [run(f"c data=x,link=1gbit/{name}", rate) for name in "ab" for rate in (1.0, 3.0)]
    found = values_of([*runs, run("c data=y/a", 2.0), run("c data=y/b", 0.0)], "rows_per_s", {"c data=y": "n"})
    assert found == {
        "x\n1gbit": {"a": [1.0, 3.0], "b": [1.0, 3.0]},
        "y\nn": {"a": [2.0]},
    }
    assert values_of([run("alone x=1", 1.0)], "rows_per_s", {}) == {}


@pytest.mark.parametrize(("name", "drawn"), [("c k=1/a", ["p.png"]), ("c k=1", []), ("c workers=1", ["p.png"])])
def test_the_kind_of_a_record_chooses_its_picture(tmp_path: Path, name: str, drawn: list[str]) -> None:
    more = name.replace("/a", "/b").replace("workers=1", "workers=2")
    runs: list[Any] = [run(name, 2.0), run(more, 3.0)]
    record = {"kind": "scenario", "title": "t", "runs": [r | {"hdr": None} for r in runs]}
    assert [path.name for path in pictures.draw(record, tmp_path / "p")] == drawn
