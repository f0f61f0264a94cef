"""The files of each journey exist, and the summary counts them."""

import pytest

from tools import journeys

FILES = journeys.files()


@pytest.mark.parametrize("journey", sorted(FILES))
def test_each_listed_file_exists(journey: str) -> None:
    assert sorted(path.name for path in FILES[journey] if not path.is_file()) == []


def test_the_summary_counts_the_listed_files() -> None:
    assert journeys.counts() == {name: len(files) for name, files in FILES.items()}
