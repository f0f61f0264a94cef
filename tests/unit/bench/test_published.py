"""Every figure that is published is the one of its record, and the record is there."""

import re
from pathlib import Path

import pytest

from bench import publish, records, summary
from bench.publish import Figure

ROOT = records.PUBLISHED.parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "RELIABILITY.md", "bench/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
LINK = re.compile(r"\]\(([^)#]*bench/results/[^)#]*)\)")
BYTES_MAX = 4_000_000


@pytest.mark.parametrize("page", publish.PAGES, ids=lambda page: page.name)
def test_the_tables_of_figures_are_those_of_the_records(page: Path) -> None:
    told = "change published.toml and run python -m bench.publish, not the page"
    assert page.read_text() == publish.with_tables(page), told


def test_every_table_of_the_page_on_performance_is_made_from_records() -> None:
    bare = publish.MARKED.sub("", (ROOT / "docs" / "performance.md").read_text())
    assert [line for line in bare.splitlines() if line.startswith("|")] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_result_that_a_page_links_is_there(page: Path) -> None:
    links = LINK.findall(page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_records_are_kept_where_a_row_names_them_and_say_what_the_summary_says() -> None:
    kept = records.read_all(records.PUBLISHED)
    assert set(kept) == publish.named_files()
    lines = summary.read()
    for stem, record in kept.items():
        of_file = [line for line in lines if line["file"] == stem]
        for line in summary.lines_of(stem, record):
            assert line in of_file, stem


def test_the_kept_results_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in records.PUBLISHED.iterdir()}
    assert sum(sizes.values()) <= BYTES_MAX, sorted(sizes.items(), key=lambda kv: -kv[1])[:5]


def test_a_figure_that_misses_its_target_is_bold() -> None:
    row = {"what": "w", "run": "r", "file": "r-1-2", "unit": "M rows/s"}
    lines = [
        {"file": "r-1-2", "run": "r", "exact": True, "figures": {"a": 2e6, "b": 7}},
        {"file": "r-1-29991231T000000", "run": "r", "exact": True, "figures": {"a": 3e6, "b": 9}},
        {"file": "r-1-29991231T000001", "run": "r", "exact": False, "figures": {"a": 1, "b": 1}},
    ]
    met = publish.run_cells({**row, "figures": ["a >= 2e6"]}, lines)
    assert met == ["w", ">= 2", "2", "M rows/s", "2 to 3 (2)"]
    missed = publish.run_cells({**row, "figures": ["a >= 2.1e6"]}, lines)
    assert missed[2] == "**2**"
    none = publish.run_cells({**row, "file": "", "figures": ["a >= 2e6"]}, lines)
    assert none == ["w", ">= 2", "not measured yet", "M rows/s", ""]
    with pytest.raises(ValueError, match="no exact run 'x'"):
        publish.run_cells({**row, "run": "x", "figures": ["a"]}, lines)


def test_rows_name_a_new_record_that_has_their_run() -> None:
    row = '[[table.t]]\nwhat = "w"\nrun = "{}"\nfile = "old-1-2"\n'
    text = "# head\n" + row.format("a") + "\n" + row.format("b") + "\n" + row.format("c")
    record = {"command": "x", "runs": [{"name": "a", "exact": True}, {"name": "b", "exact": False}]}
    found = publish.naming(text, "new-1-2", record)
    assert found == text.replace('run = "a"\nfile = "old-1-2"', 'run = "a"\nfile = "new-1-2"')


def test_a_row_that_compares_names_a_new_record_of_the_same_command() -> None:
    row = '[[table.t]]\nwhat = "w"\nfigure = "r"\nwithout = "{}"\nwith = "b"\nfile = "{}"\n'
    text = row.format("a", "old-1-2") + row.format("a", "other-1-2") + row.format("c", "old-1-2")
    lines = [{"file": "old-1-2", "command": "x"}, {"file": "other-1-2", "command": "x --y"}]
    record = {"command": "x", "runs": [], "verdicts": [{"figure": "r", "base": "a", "other": "b"}]}
    found = publish.naming(text, "new-1-2", record, lines)
    assert found == text.replace("old-1-2", "new-1-2", 1)


@pytest.mark.parametrize(
    ("text", "figure"),
    [("p99_ms", Figure("p99_ms")), ("p99_ms <= 5", Figure("p99_ms", "<=", 5.0))],
)
def test_a_figure_is_read_with_its_target(text: str, figure: Figure) -> None:
    assert Figure.of(text) == figure


@pytest.mark.parametrize("text", ["a < 5", "", "a b", "a <="])
def test_an_unknown_figure_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no figure"):
        Figure.of(text)


def test_the_summary_has_each_run_once_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "summary.jsonl"
    lines = [{"file": "b", "number": 0}, {"file": "a", "number": 1}, {"file": "a", "number": 0}]
    summary.write([*lines, *lines], path)
    assert summary.read(path) == [lines[2], lines[1], lines[0]]


def test_a_record_is_published_with_the_same_bytes_each_time(tmp_path: Path) -> None:
    record = {"kind": "scenario", "runs": [{"name": "a", "samples": [[0.1, 2]]}]}
    made = records.write("a-1-2", record, tmp_path)
    kept = records.publish(made, tmp_path)
    before = kept.read_bytes()
    assert records.publish(kept, tmp_path) == kept
    assert kept.read_bytes() == before
    assert records.read(kept) == record
