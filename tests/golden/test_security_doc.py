"""Every row of the security matrix names tests, and each of them is there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
NAMED = re.compile(r"`([\w/.]*\.py)?::(\w+)`")
TRUSTED = (
    "user code", "engine", "keeper", "operator", "sender", "Spark", "other tenants", "one machine"
)  # fmt: skip


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading, without its head."""
    part = PAGE.read_text().split(f"\n## {heading}", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


MATRIX = rows("Threats")


def named_in(cell: str) -> list[tuple[str, str]]:
    """Return (file, function) of each test that a cell names; ``::name`` is of the file before."""
    found: list[tuple[str, str]] = []
    for file, name in NAMED.findall(cell):
        found.append((file or found[-1][0], name))
    return found


@pytest.mark.parametrize("row", MATRIX, ids=[row[0] for row in MATRIX])
def test_each_row_is_shown_by_tests_that_are_there(row: list[str]) -> None:
    assert len(row) == 3
    named = named_in(row[2])
    assert named, "a row without a test is a wish"
    for file, name in named:
        path = ROOT / file if file.startswith("e2e/") else ROOT / "tests" / file
        made = [n.name for n in ast.parse(path.read_text()).body if isinstance(n, ast.FunctionDef)]
        assert name in made, f"{file} has no {name}"


def test_everybody_has_a_row_of_what_he_is_trusted_with() -> None:
    who = " ".join(row[0] for row in rows("Who is trusted"))
    assert [name for name in TRUSTED if name not in who] == []
