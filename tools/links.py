"""Links and paths that Markdown pages of this repository have, and what they lead to."""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?P<mark>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^()\s]+)\)")
# In code is no link: what matches first is passed over.
MARKS = re.compile(rf"{FENCE.pattern}|{LINK.pattern}|`[^`\n]+`", re.MULTILINE | re.DOTALL)
# A file as text writes it: `worker/penstock/cli/run.py`, or below one of ROOTS: `cli/run.py`.
PATH = re.compile(r"`((?:[\w.-]+/)+[\w-]+\.(?:py|md|yaml|toml|sh|json|css))(?:::\w+)?`")
ROOTS = (
    ".", "worker", "worker/penstock", "worker/penstock/protocol", "worker/penstock/model", "docs",
    "operator", "operator/penstock_operator", "spark", "spark/penstock_spark", "charts/penstock",
    "tests", "e2e", "bench", "sim",
)  # fmt: skip
# Pages of the site that are kept elsewhere in the repository, where people look for them.
ELSEWHERE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "RELIABILITY.md": "reliability.md",
    "bench/README.md": "benchmarks.md",
    "e2e/README.md": "cluster-tests.md",
}


class Link(NamedTuple):
    """A link of a page: the path in the repository ("" for none) and the anchor ("" for none)."""

    target: str
    path: str
    anchor: str


def pages() -> list[Path]:
    """Return all pages that people read, those of the repository's root and of docs/ first."""
    outside = [ROOT / name for name in ELSEWHERE]
    return [*outside, *sorted((ROOT / "docs").rglob("*.md"))]


def prose(text: str) -> str:
    """Return the text without its fenced code; offsets change."""
    return FENCE.sub("", text)


def links(page: Path) -> Iterator[Link]:
    """Give the links of a page to files of this repository and to anchors."""
    for found in MARKS.finditer(page.read_text(encoding="utf-8")):
        target = found["target"]
        if target and not is_address(target):
            yield resolve(target, page.relative_to(ROOT).as_posix())


def is_address(target: str) -> bool:
    """Say whether a link leads out of the repository."""
    return target.startswith(("http://", "https://", "mailto:"))


def resolve(target: str, source: str) -> Link:
    """Return what ``target`` means in the page ``source``, whose path is that in the repository."""
    path, _, anchor = target.partition("#")
    if not path:
        return Link(target, source, anchor)
    parts: list[str] = []
    for part in (PurePosixPath(source).parent / path).parts:
        if part != "..":
            parts.append(part)
        elif not parts or parts.pop() == "..":
            return Link(target, "", anchor)
    return Link(target, "/".join(parts), anchor)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as hosts of code and the site spell them."""
    seen: dict[str, int] = {}
    text = prose(page.read_text(encoding="utf-8"))
    for heading in re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE):
        plain = LINK.sub(r"\g<text>", heading).replace("`", "").replace("*", "").lower()
        slug = re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
        seen[slug] = seen.get(slug, -1) + 1
        if seen[slug]:
            seen[f"{slug}-{seen[slug]}"] = 0
    return set(seen)


def missing_paths(page: Path) -> list[str]:
    """Return the files that a page names as code and that are nowhere."""
    named = PATH.findall(prose(page.read_text(encoding="utf-8")))
    return [path for path in named if not any((ROOT / root / path).exists() for root in ROOTS)]
