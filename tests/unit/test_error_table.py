"""Every test that docs/errors.md names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`((?:unit|integration)/[\w/]+\.py(?:::\w+)?|::\w+)`")


def test_the_tests_of_the_table_are_there() -> None:
    file = ""
    found = NAMED.findall((ROOT / "docs" / "errors.md").read_text())
    assert len(found) > 30
    for name in found:
        path, _, test = name.partition("::")
        file = path or file
        source = ROOT / "tests" / file
        assert source.is_file(), f"docs/errors.md names tests/{file}"
        assert not test or f"def {test}(" in source.read_text(), f"docs/errors.md names {name}"
