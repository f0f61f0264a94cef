"""``pytest tests/golden --update-golden`` writes the expected texts anew; look at the diff."""

from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """Know the one option of these tests."""
    parser.addoption("--update-golden", action="store_true", help="write what is expected anew")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with the file of that name, or write it."""
    update = bool(request.config.getoption("--update-golden", default=False))

    def check(name: str, text: str) -> None:
        path = HERE / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert text == path.read_text(), f"{name} changed; --update-golden accepts it"

    return check
