"""Puts everything in ``bench/results`` on one static page: ``python -m bench.report``.

Every figure stands beside the file and the command it comes from.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import page, records, table
from bench.compare import notes
from bench.draw.sweep import fields_of
from bench.turns import RATES

SHOWN = (
    "rows_per_s", "p50_ms", "p99_ms", "p99.9_ms", "max_ms", "cpu_ns_per_row", "wire_bytes_per_row",
    "memory_max_mib", "epochs", "checkpoint_s", "others_share", "stolen_share", "quiet_p99_ms",
)  # fmt: skip
LIMITS = (
    "All of it ran on one machine with two cores, which carried both ends of every connection "
    "and the harness itself; no network card was involved. Absolute figures say little "
    "elsewhere: ratios of runs that alternated say more. Where others_share is above "
    "0.1, something else was running. The words are made by a generator that slices a block in "
    "memory, or read from Parquet where they are real text; what a source gives alone is in each "
    "file (generator_rows_per_s). A link of 1gbit is the loopback interface behind a token bucket. "
    "Engines that are compared do not give out the same: the table says what. Their rates begin at "
    "the first mark behind a third of the time, so a cold first batch is in none. The best third "
    "is the fastest stretch of a third of the time, without stalls. Percentiles are of all seconds "
    "behind the warm-up, where quiet ones are not named. The bare exchange is a yardstick and no "
    "bound: one way to do the same without an engine, which some runs of the engine pass."
)
Record = Mapping[str, Any]


def main() -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.report")
    parser.add_argument("--out", type=Path, default=records.OUT, help="folder of the results")
    folder = parser.parse_args().out
    found = records.read_all(folder)
    if not found:
        print(f"no results in {folder}: run `make bench`", file=sys.stderr)
        return 1
    target = folder / "index.html"
    target.write_text(page.page("Penstock: measurements", parts(found, folder)))
    print(f"== report: {target}")
    return 0


def parts(found: Mapping[str, Record], folder: Path) -> list[str]:
    """Return the parts of the page, in order."""
    scenarios = {stem: r for stem, r in found.items() if r["kind"] == "scenario"}
    others = {stem: r for stem, r in found.items() if r["kind"] != "scenario"}
    made = [page.heading(1, "Penstock: measurements"), *_machines(list(found.values()))]
    made += [page.heading(2, "Targets"), targets(scenarios)]
    for stem, record in scenarios.items():
        made += scenario(stem, record, folder)
    for stem, record in others.items():
        made += comparison(stem, record, folder)
    return [*made, page.heading(2, "What this does not show"), page.paragraph(LIMITS)]


def _machines(all_records: Sequence[Record]) -> list[str]:
    told = {
        ", ".join((m["cpu"], f"{m['cores']} cores", f"{m['memory_gib']} GiB", m["system"], m["python"]))
        for m in (record["machine"] for record in all_records)
    }
    return [page.paragraph(text, "soft") for text in sorted(told)]


def targets(scenarios: Mapping[str, Record]) -> str:
    """Return the table of every target, run by run."""
    body = []
    for record in scenarios.values():
        for run in record["runs"]:
            for target in record["targets"]:
                if target.get("variant") not in {None, run["name"].rpartition("/")[2]}:
                    continue
                value = run["results"].get(target["name"])
                told = "not measured" if value is None else table.number(value)
                verdict = "met" if _met(target["bound"], value) else "MISSED"
                exact = "yes" if run["exact"] else "NO"
                told_bound = _bound(target["bound"])
                what = table.title(target["name"])
                body.append([run["name"], what, told_bound, told, verdict, exact])
    return page.table(["run", "figure", "target", "measured", "", "exact"], body)


def _bound(bound: str) -> str:
    how, number = bound.split()
    return f"{'at least' if how == '>=' else 'at most'} {table.number(float(number))}"


def _met(bound: str, value: float | None) -> bool:
    how, number = bound.split()
    if value is None:
        return False
    return value >= float(number) if how == ">=" else value <= float(number)


def scenario(stem: str, record: Record, folder: Path) -> list[str]:
    """Return the section of a scenario."""
    runs = record["runs"]
    made = [page.heading(2, record["title"]), _one(runs[0]) if len(runs) == 1 else _many(runs)]
    made += [page.paragraph(_verdict(v)) for v in record.get("verdicts", ())]
    made += _pictures(stem, record["title"], folder)
    return [*made, page.source(record["command"], f"{stem}.json")]


def _one(run: Record) -> str:
    body = [[table.title(name), table.number(v)] for name, v in run["results"].items()]
    return page.table(["figure", "value"], [*body, ["exact", "yes" if run["exact"] else "NO"]])


def _many(runs: Sequence[Record]) -> str:
    names = [n for n in SHOWN if any(n in run["results"] for run in runs)]
    head = ["run", *map(table.title, names), "exact"]
    body = [[_label(run), *_values(run, names), "yes" if run["exact"] else "NO"] for run in runs]
    return page.table(head, body)


def _label(run: Record) -> str:
    told = ", ".join(f"{k} {v}" for k, v in fields_of(run).items())
    variant = run["name"].rpartition("/")[2] if "/" in run["name"] else ""
    return " ".join(filter(None, (told, variant))) or str(run["name"])


def _values(run: Record, names: Sequence[str]) -> list[str]:
    return [table.number(run["results"][n]) if n in run["results"] else "" for n in names]


def _verdict(v: Record) -> str:
    low, high = v["interval"]
    ratio = f"{v['other']} is {v['ratio']:.3f} [{low:.3f}, {high:.3f}] of {v['base']}"
    about = ", ".join(filter(None, (v.get("cell"), v["figure"])))
    tukey = "; ".join(f"{a} and {b} p = {p:.2g}" for a, b, p in v.get("tukey", ()))
    beside = f". Tukey's HSD: {tukey}" if tukey else ""
    return f"{about}: {ratio} over {v['pairs']} pairs: {v['verdict']}{beside}"


def _pictures(stem: str, text: str, folder: Path) -> list[str]:
    found = [f"{stem}{what}.png" for what in ("", "-latency")]
    return [page.picture(name, text) for name in found if (folder / name).exists()]


def comparison(stem: str, record: Record, folder: Path) -> list[str]:
    """Return the section of engines, or revisions, that were compared in turn."""
    made = [page.heading(2, record["title"])]
    head = [
        "compared",
        "M rows/s: least, median, most",
        "Penstock beside it",
        "ratio",
        "95 %",
        "least - most",
        "turns",
    ]
    of_rates = [v for v in record["verdicts"] if v["figure"] in RATES]
    made.append(page.table(head, [_ratio_row(v) for v in of_rates]))
    made += [page.paragraph(_verdict(v)) for v in record["verdicts"] if record["kind"] != "compare"]
    made += [page.paragraph(f"not run: {k}: {v}") for k, v in record.get("not_run", {}).items()]
    made += _pictures(stem, record["title"], folder)
    if record["kind"] == "compare":
        made += [page.paragraph(line) for line in notes(record["runs"])]
    if record.get("engines"):
        head = ["engine", "gives out", "checkpoints", "set up"]
        rows = [
            [e["title"], e["emits"], e["checkpoints"], " ".join(e["set_up"].split())]
            for e in record["engines"].values()
        ]
        made.append(page.table(head, rows))
    return [*made, page.source(record["command"], f"{stem}.json")]


def _ratio_row(v: Record) -> list[str]:
    def spread(values: Sequence[float]) -> str:
        return ", ".join(f"{x / 1e6:.3g}" for x in values)

    low, high = v["interval"]
    about = v["base"] if v["figure"] == RATES[0] else f"{v['base']}, best third"
    rates = [spread(v["base_spread"]), spread(v["other_spread"])]
    least, most = v["extremes"]
    ranges = [f"{low:.1f} - {high:.1f}", f"{least:.1f} - {most:.1f}"]
    return [about, *rates, f"{v['ratio']:.1f}", *ranges, str(v["pairs"])]


if __name__ == "__main__":
    sys.exit(main())
