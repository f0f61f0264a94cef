"""What is published names the files it comes from, and they are there."""

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from bench import records

ROOT = Path(records.OUT).parent.parent
PAGE = ROOT / "docs" / "performance.md"
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "RELIABILITY.md",
    ROOT / "bench" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
STEMS = sorted(path.stem for path in records.OUT.glob("*.json"))
# The name of a file, perhaps with a star: scenario, twelve hex digits, date and time.
NAMED = re.compile(r"`([a-z0-9][a-z0-9-]*-[0-9a-f]{12}-[T0-9*]+)`")
QUOTED = re.compile(r"`([^`]+)`")
REVISION = re.compile(r"\b[0-9a-f]{7,12}\b")


def exists(pattern: str) -> bool:
    return any(fnmatch(stem, pattern) for stem in STEMS)


def tables(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the paragraph above each table, and its rows below the head."""
    above, rows = "", list[str]()
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            rows.append(line)
            continue
        if rows:
            yield above, rows[2:]
            above, rows = "", []
        if line.strip():
            above = f"{above}\n{line}" if above and not above.endswith("\n") else line
        elif above:
            above += "\n"


def unnamed(text: str) -> list[str]:
    """Return the rows of all tables that name no file that is there, and are not said to."""
    found = []
    for above, rows in tables(text):
        if "No files" in above:
            continue
        told = re.search(r"Files: (.*)", above, re.DOTALL)
        before = ""
        for row in rows:
            same = row.split("|")[1].strip().startswith("the same") or row.endswith("| same |")
            whole = f"{before} {row}" if same else row
            before = before if same else row
            if told is None or not any(map(exists, candidates(whole, told[1]))):
                found.append(row)
    return found


def candidates(row: str, told: str) -> Iterator[str]:
    """Return the names and patterns that say where a row comes from."""
    yield from NAMED.findall(row)
    yield from NAMED.findall(told)
    first = row.split("|")[1]
    for pattern in QUOTED.findall(told):
        if "NAME" in pattern:
            yield from (pattern.replace("NAME", name) for name in QUOTED.findall(first))
        elif "REVISION" in pattern:
            revisions = REVISION.findall(first)
            if all(exists(pattern.replace("REVISION", f"{r}*")) for r in revisions):
                yield from (pattern.replace("REVISION", f"{r}*") for r in revisions)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_file_that_a_page_names_is_there(path: Path) -> None:
    missing = [name for name in NAMED.findall(path.read_text()) if not exists(name)]
    assert not missing, f"{path.name} names files that are not in bench/results"


def test_every_row_of_every_table_of_figures_names_its_file_or_says_that_it_has_none() -> None:
    assert unnamed(PAGE.read_text()) == []


def test_a_row_without_a_file_is_found() -> None:
    head = "| what | measured | file |\n| --- | --- | --- |\n"
    (name, *_) = STEMS
    sound = f"| a | 1 | `{name}` |\n| the same, longer | 2 | |\n"
    assert unnamed(f"Files: as named.\n\n{head}{sound}") == []
    assert len(unnamed(f"Files: as named.\n\n{head}| a | 1 | `{name[:-1]}x` |\n")) == 1
    assert len(unnamed(f"Files: as named.\n\n{head}| a | 1 | |\n| b | 2 | `{name}` |\n")) == 1
    assert len(unnamed(f"Told so.\n\n{head}{sound}")) == 2
    assert len(unnamed(f"Files: `NAME-*`.\n\n{head}| `no-such`, 1 | 2 | |\n")) == 1


def test_the_ratios_to_other_engines_are_those_of_the_file_that_is_named() -> None:
    text = PAGE.read_text()
    part = text[text.index("## Beside other engines") :]
    (stem, *_) = NAMED.findall(part)
    record = json.loads((records.OUT / f"{stem}.json").read_text())
    rows = {line.split("|")[1].strip(): line for line in part.splitlines() if line[:2] == "| "}
    wanted = {v["base"] for v in record["verdicts"]}
    assert wanted == {name for name, e in record["engines"].items() if e["title"] in rows}
    for verdict in record["verdicts"]:
        row = rows[record["engines"][verdict["base"]]["title"]]
        least, most = verdict["extremes"]
        told = f"{number(verdict['ratio'])} ({number(least)} - {number(most)})"
        assert told in row, f"{verdict['base']}, {verdict['figure']}"
        assert " / ".join(f"{rate / 1e6:.3g}" for rate in verdict["base_spread"]) in row


def number(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 20 else f"{ratio:.1f}"
