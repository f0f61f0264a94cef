"""Pages link to files and headings that are there, and name files that are there."""

from pathlib import Path

import pytest

from tools import links
from tools.links import ROOT, Link
from tools.offline import fetched

PAGES = links.pages()
MADE = {path.relative_to(ROOT).as_posix(): links.anchors(path) for path in PAGES}


def leads_somewhere(link: Link) -> bool:
    there = bool(link.path) and (ROOT / link.path).exists()
    return there and (not link.anchor or link.anchor in MADE.get(link.path, {link.anchor}))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_each_link_leads_to_something(page: Path) -> None:
    assert [link.target for link in links.links(page) if not leads_somewhere(link)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_each_file_that_is_named_is_there(page: Path) -> None:
    assert links.missing_paths(page) == []


def test_code_has_no_links() -> None:
    page = ROOT / "docs" / "api.md"
    text = "[a](b.md) `[c](d.md)` [`e`](f.md)\n```\n[g](h.md)\n```\n![i](j.svg)\n"
    found = [m["target"] for m in links.MARKS.finditer(text) if m["target"]]
    assert found == ["b.md", "f.md", "j.svg"]
    assert links.resolve("../x/y.md#z", "docs/api.md") == Link("../x/y.md#z", "x/y.md", "z")
    assert links.resolve("#z", page.relative_to(ROOT).as_posix()).path == "docs/api.md"
    assert links.resolve("../../x", "docs/api.md").path == ""


def test_headings_have_the_anchors_of_hosts_of_code(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# `a_b` & C\n## Same\n## Same\n```\n# no\n```\n")
    assert links.anchors(page) == {"a_b--c", "same", "same-1"}


def test_what_a_browser_would_fetch_is_found() -> None:
    text = '<a href="https://a/"></a><script src="https://b/c.js"></script><img src="d.svg">'
    assert fetched(text) == ["https://b/c.js"]
