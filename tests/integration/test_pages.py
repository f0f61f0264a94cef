"""The code on pages of documentation does what the pages say."""

from pathlib import Path

import pytest

from tests.support.pages import Reader, blocks

DOCS = Path(__file__).parents[2] / "docs"
SHARED = ("make_orders.py", "job.yaml", "look.py")
PAGES = [DOCS / "api.md", *sorted((DOCS / "guides").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_block_of_code_does_what_the_page_says(page: Path, tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    if page != PAGES[0]:  # guides say that the three files of api.md go with them
        for block in blocks(PAGES[0]):
            if block.title in SHARED:
                reader.take(block)
    for block in blocks(page):
        reader.take(block)
    reader.finish()
    assert [f"line {block.line}" for block in reader.unknown] == []
