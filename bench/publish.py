"""Publishes figures: ``python -m bench.publish [FILE ...] [--replace]``.

``published.toml`` says what is published: each row names a record and its figures, or no record yet. FILEs are new
records (bench/out). The lines of each are added to ``results/summary.jsonl``. Records that a row
names are kept with all their samples. With ``--replace``, rows name the new record if it has their run, exact.
Then the tables between the marks

    <!-- figures: NAME -->  ...  <!-- end -->

of README.md, docs/performance.md and docs/papers.md are written again. A test checks that they have exactly this
text. So a figure changes only when another record is published, never by hand.
"""

import argparse
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import records, summary
from bench.turns import OTHERS_SHARE_MAX

HERE = Path(__file__).parent
SPEC = HERE / "published.toml"
PAGES = tuple(HERE.parent / name for name in ("README.md", "docs/performance.md", "docs/papers.md"))
MARKED = re.compile(r"(<!-- figures: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
FIGURE = re.compile(r"(\S+)(?: (>=|<=) (\S+))?")
SCALES = {"M": 1e-6, "thousand": 1e-3, "%": 100.0}
HEAD = ("what", "target", "measured", "unit", "every run since (how many)", "record")
PAIR_HEAD = ("what", "without", "with", "unit", "ratio (least to most)", "pairs", "record")
# Since then runs are long enough to compare, and all are from one machine.
SINCE = "20261122T180000"
Line = Mapping[str, Any]
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a row, and its target: ``p99_ms <= 5``."""

    name: str
    how: str = ""
    bound: float = 0.0

    @classmethod
    def of(cls, text: str) -> "Figure":
        """Read how a row spells it. Raises ValueError."""
        found = FIGURE.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is no figure: NAME, NAME >= BOUND or NAME <= BOUND")
        return cls(found[1], found[2] or "", float(found[3] or 0))

    def met(self, value: float) -> bool:
        """Return whether a value meets the target. True if there is no target."""
        return {">=": value >= self.bound, "<=": value <= self.bound}.get(self.how, True)


def main(arguments: list[str] | None = None) -> int:
    """Publish. The exit code is 1 if a row names a record or figure that does not exist."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.publish")
    parser.add_argument("file", nargs="*", type=Path, help="records that were made, in bench/out")
    parser.add_argument("--replace", action="store_true", help="let rows name these records if they have their runs")
    options = parser.parse_args(arguments)
    files: list[Path] = options.file
    new = [line for file in files for line in lines_of(file)]
    summary.write([*summary.read(), *new])
    for file in files:
        records.publish(file)
        if options.replace:
            SPEC.write_text(naming(SPEC.read_text(), records.stem_of(file), records.read(file), summary.read()))
    named = named_files()
    for path in records.PUBLISHED.glob("*.json.gz"):
        if records.stem_of(path) not in named:
            path.unlink()
            print(f"   {path.name}: no row names it, its lines are in {summary.FILE.name}")
    try:
        for page in PAGES:
            page.write_text(with_tables(page))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def lines_of(file: Path) -> Iterator[summary.Line]:
    """Yield the lines of the summary for a record."""
    return summary.lines_of(records.stem_of(file), records.read(file))


def naming(text: str, stem: str, record: Mapping[str, Any], lines: Sequence[Line] = ()) -> str:
    """Return the text of ``published.toml`` in which rows name a record if it has their run, exact.

    A row that compares names it if it has the comparison and ``lines`` say that the same command made its old record.
    """
    runs = {run["name"] for run in record["runs"] if run["exact"]}
    alike = {line["file"] for line in lines if line["command"] == record["command"]}

    def has(row: Row) -> bool:
        if "with" not in row:
            return row["run"] in runs
        return row["file"] in alike and _compares(row, record.get("verdicts", ())) is not None

    parts = re.split(r"(?m)^(?=\[\[)", text)
    for place, part in enumerate(parts):
        rows = tomllib.loads(part).get("table", {}).values()
        if any(has(row) for some in rows for row in some):
            parts[place] = re.sub(r'(?m)^file = ".*"$', f'file = "{stem}"', part)
    return "".join(parts)


def spec() -> dict[str, list[Row]]:
    """Return the rows of each table by its name."""
    found: dict[str, list[Row]] = tomllib.loads(SPEC.read_text())["table"]
    return found


def named_files() -> set[str]:
    """List the records whose samples are kept."""
    return {row["file"] for rows in spec().values() for row in rows if row["file"]}


def with_tables(page: Path) -> str:
    """Return the text of a page with its tables written anew. Raises ValueError naming a row."""
    rows, lines = spec(), summary.read()
    results = os.path.relpath(records.PUBLISHED, page.parent)

    def table(found: "re.Match[str]") -> str:
        if found[2] not in rows:
            raise ValueError(f"{SPEC.name} has no table {found[2]!r}")
        return f"{found[1]}{table_of(rows[found[2]], lines, results)}{found[3]}"

    return MARKED.sub(table, page.read_text())


def table_of(rows: Sequence[Row], lines: Sequence[Line], results: str) -> str:
    """Return a table in Markdown. ``results`` is the path of the records, relative to the page."""
    paired = "with" in rows[0]
    head = PAIR_HEAD if paired else HEAD
    body = [(pair_cells if paired else run_cells)(row, lines) for row in rows]
    links = [f"[{r['file'].split('-')[-2][:7]}]({results}/{r['file']}.json.gz)" if r["file"] else "" for r in rows]
    body = [[*cells, link] for cells, link in zip(body, links, strict=True)]
    spelt = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in spelt)


def run_cells(row: Row, lines: Sequence[Line]) -> list[str]:
    """Return the table row of a run. Raises ValueError."""
    figures = [Figure.of(text) for text in row["figures"]]
    scale = _scale(row)
    if not row["file"]:
        return [row["what"], _targets(figures, scale), "not measured yet", row["unit"], ""]
    runs = [line for line in lines if line.get("run") == row["run"] and line["exact"]]
    own = [line for line in runs if line["file"] == row["file"]]
    if not own:
        raise ValueError(f"{row['what']}: {row['file']} has no exact run {row['run']!r}")
    since = [line for line in runs if line["file"][-15:] >= SINCE]
    kept = [line for line in since if _undisturbed(line) or line in own]
    return [
        row["what"],
        _targets(figures, scale),
        " / ".join(_measured(f, own, scale) for f in figures),
        row["unit"],
        _all_of(figures, kept, scale),
    ]


def pair_cells(row: Row, lines: Sequence[Line]) -> list[str]:
    """Return the table row of a comparison. Raises ValueError."""
    of_file = [line["verdict"] for line in lines if line["file"] == row["file"] and "verdict" in line]
    verdict = _compares(row, of_file)
    if verdict is None:
        raise ValueError(f"{row['what']}: {row['file']} has no such comparison of {row['without']} and {row['with']}")
    scale = _scale(row)
    spread = [" / ".join(_number(value * scale) for value in verdict[side]) for side in ("base_spread", "other_spread")]
    least, most = map(_number, verdict["extremes"])
    ratio = f"{_number(verdict['ratio'])} ({least} to {most})"
    return [row["what"], *spread, row["unit"], ratio, str(verdict["pairs"])]


def _compares(row: Row, verdicts: Iterable[Line]) -> Line | None:
    """Return the comparison that a row is about; None if it is not among them."""
    wanted = {"figure": row["figure"], "base": row["without"], "other": row["with"]}
    wanted |= {"cell": row["cell"]} if "cell" in row else {}
    return next((verdict for verdict in verdicts if wanted.items() <= verdict.items()), None)


def _scale(row: Row) -> float:
    return SCALES.get(row["unit"].split()[0], 1.0)


def _undisturbed(line: Line) -> bool:
    return bool(line["figures"].get("others_share", 0.0) <= OTHERS_SHARE_MAX)


def _targets(figures: Sequence[Figure], scale: float) -> str:
    return " / ".join(f"{f.how} {_number(f.bound * scale)}" for f in figures if f.how)


def _measured(figure: Figure, runs: Sequence[Line], scale: float) -> str:
    values = sorted(run["figures"][figure.name] for run in runs)
    told = _range(values, scale)
    return told if all(map(figure.met, values)) else f"**{told}**"


def _all_of(figures: Sequence[Figure], runs: Sequence[Line], scale: float) -> str:
    values = [sorted(r["figures"][f.name] for r in runs if f.name in r["figures"]) for f in figures]
    return f"{' / '.join(_range(v, scale) for v in values)} ({len(runs)})"


def _range(values: Sequence[float], scale: float) -> str:
    least, most = _number(values[0] * scale), _number(values[-1] * scale)
    return least if least == most else f"{least} to {most}"


def _number(value: float) -> str:
    """Write a number with at most three significant digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    spelt = f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return spelt.rstrip("0").rstrip(".") if "." in spelt else spelt


if __name__ == "__main__":
    sys.exit(main())
