"""The tables of rules name lines that are really there, each exactly once."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DECISIONS = ROOT / "docs" / "decisions"
TABLES = ("003-rules-of-a-task.md", "019-rules-of-the-control-core.md")
ROW = re.compile(r"^\| `([a-z_./]+\.py)` \| `(.+?)` \|", re.MULTILINE)


@pytest.mark.parametrize(
    ("file", "line"),
    [row for table in TABLES for row in ROW.findall((DECISIONS / table).read_text())],
)
def test_the_rule_is_one_line(file: str, line: str) -> None:
    source = (ROOT / "worker" / "penstock" / "protocol" / file).read_text()
    assert [text.strip() for text in source.splitlines()].count(line) == 1, line
