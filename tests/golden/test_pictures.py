"""The pictures of the applications are those of their jobs: ``python -m tools.pictures`` draws them anew."""

from pathlib import Path

import pytest

from penstock.graph import load_job
from tools.pictures import APPLICATIONS, CONTRACTED, FOLDER, draw, picture, place

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", APPLICATIONS)
def test_an_application_is_drawn_as_its_job_is(name: str) -> None:
    shown = picture(load_job(EXAMPLES / f"{name}.yaml", None).graph, contracted=name in CONTRACTED)
    assert draw(shown) + "\n" == (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    places = place(shown)
    assert len(set(places.values())) == len(places), "no two steps or lanes are in one place"
    for arrow in shown.arrows:
        way = [places[each][0] for each in (arrow.sender, *arrow.lanes, arrow.receiver)]
        assert way == sorted(set(way)), "arrows lead to the right, a column at a time"
