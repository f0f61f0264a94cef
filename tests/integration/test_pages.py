"""The code on pages of documentation does what the pages say."""

import re
from pathlib import Path

import pytest

from tests.support.pages import Reader, blocks, session

DOCS = Path(__file__).parents[2] / "docs"
SHARED = ("make_orders.py", "job.yaml", "look.py")
PAGES = [DOCS / "api.md", DOCS / "testing.md", *sorted((DOCS / "guides").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_block_of_code_does_what_the_page_says(page: Path, tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    if page.parent.name == "guides":  # they say that the three files of api.md go with them
        for block in blocks(PAGES[0]):
            if block.title in SHARED:
                reader.take(block)
    for block in blocks(page):
        reader.take(block)
    reader.finish()
    assert [f"line {block.line}" for block in reader.unknown] == []


def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    told = session(DOCS / "tutorial.md", tmp_path)
    by_first_line = {block.text.splitlines()[0]: (status, text) for block, status, text in told}
    looked = re.findall(r"^\d+ rows,  \d+ words\n(?: .*\n){5}", "".join(text for _, _, text in told), re.MULTILINE)
    assert len(looked) == 2
    assert looked[0] == looked[1], "a job that is killed, rescaled and stopped counts as one that is left alone"
    wrong = {line for line, (status, _) in by_first_line.items() if status}
    assert wrong == {
        "penstock run words.yaml --set job.parameters.inptu=lines2",
        "cat > broken.py <<'END'",
        "penstock run broken.yaml --workers 1 --debug",
    }
    assert "did you mean 'input'" in by_first_line["penstock run words.yaml --set job.parameters.inptu=lines2"][1]
    assert "IndexError: list index out of range" in by_first_line["cat > broken.py <<'END'"][1]
    assert (tmp_path / "modules.svg").is_file()
