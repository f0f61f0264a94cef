"""Every bound has a user: a name that bounds nothing is a promise that nobody keeps."""

import re
from pathlib import Path

import pytest

from penstock.base import limits

ROOT = Path(__file__).resolve().parents[3]
NAMES = [name for name in vars(limits) if name.isupper()]


@pytest.fixture(scope="module")
def used() -> set[str]:
    found: set[str] = set()
    for folder in ("worker/penstock", "operator/penstock_operator"):
        for file in (ROOT / folder).rglob("*.py"):
            if file != Path(limits.__file__):
                found.update(re.findall(r"\b[A-Z][A-Z0-9_]+\b", file.read_text()))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_limit_is_used_where_something_is_made(name: str, used: set[str]) -> None:
    assert name in used, f"limits.{name} bounds nothing"
