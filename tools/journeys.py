"""Reads from docs/walkthrough.md which files a reader opens for each journey through the code."""

import re
from pathlib import Path

from tools.links import ROOT

PAGE = ROOT / "docs" / "walkthrough.md"
COUNT = re.compile(r"^\| ([A-Za-z ]+) \| \d+ \| \d+ \| (\d+) \|$", re.MULTILINE)
FILES = re.compile(r"^\| `([a-z_./]+/)` \| ([a-z_ ]+) \|$", re.MULTILINE)
INCLUDED = re.compile(r"all files of the ([a-z]+):")


def counts() -> dict[str, int]:
    """Return the number of files that the summary gives for each journey."""
    return {name.lower(): int(count) for name, count in COUNT.findall(PAGE.read_text())}


def files() -> dict[str, set[Path]]:
    """Return the files that are listed for each journey, with those of a journey it includes."""
    found: dict[str, set[Path]] = {}
    for section in PAGE.read_text().split("\n### ")[1:]:
        name = section.splitlines()[0].lower()
        listed = [
            _root(folder) / folder / f"{file}.py" for folder, names in FILES.findall(section) for file in names.split()
        ]
        included = INCLUDED.search(section)
        found[name] = set(listed) | (found[included[1]] if included else set())
    return found


def _root(folder: str) -> Path:
    return ROOT if folder.startswith("operator/") else ROOT / "worker" / "penstock"
