"""Fails when a page of a site loads something from another host: ``python -m tools.offline FOLDER``."""

import sys
from html.parser import HTMLParser
from pathlib import Path

FETCHED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src"}


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        value = dict(attrs).get(FETCHED.get(tag, ""))
        if value and value.startswith(("http:", "https:", "//")):
            self.found.append(value)


def fetched(text: str) -> list[str]:
    """Return the addresses of other hosts that a browser would ask for by itself."""
    page = _Page()
    page.feed(text)
    return page.found


def main(folder: Path) -> int:
    """Print what is fetched from elsewhere. Gives the exit status."""
    pages = sorted(folder.rglob("*.html"))
    found = [f"{page}: {address}" for page in pages for address in fetched(page.read_text())]
    for line in found:
        print(line)
    print(f"site: {len(pages)} pages, {len(found)} addresses of other hosts")
    return 1 if found or not pages else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
