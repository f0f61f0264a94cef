"""Plans as text, Mermaid and SVG, byte for byte. Look at a picture before a new one is kept.

A changed drawing is written anew with ``python -m penstock.cli graph FILE -f FORMAT -o GOLDEN``.
"""

from pathlib import Path

import pytest

from penstock.graph import load_job
from penstock.graph.draw import draw_mermaid, draw_svg, draw_text

EXAMPLES = Path(__file__).parents[2] / "examples"
GOLDEN = Path(__file__).parent / "graph"
PAINTERS = {"txt": draw_text, "mmd": draw_mermaid, "svg": draw_svg}


@pytest.mark.parametrize("name", ["wordcount", "temperature"])
@pytest.mark.parametrize("format_", sorted(PAINTERS))
def test_examples_are_drawn_as_they_were(name: str, format_: str) -> None:
    drawn = PAINTERS[format_](load_job(EXAMPLES / f"{name}.yaml", None)) + "\n"
    assert drawn == (GOLDEN / f"{name}.{format_}").read_text(encoding="utf-8")


def test_all_shapes_are_drawn_as_they_were() -> None:
    drawn = draw_svg(load_job(GOLDEN / "shapes.yaml", None)) + "\n"
    assert drawn == (GOLDEN / "shapes.svg").read_text(encoding="utf-8")
