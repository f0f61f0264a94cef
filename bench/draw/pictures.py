"""Chooses the plots of a record by its kind."""

from pathlib import Path
from typing import Any

from bench.draw import bars, latency, papers, ratios, run, sweep


def draw(record: dict[str, Any], stem: Path) -> list[Path]:
    """Draw the plots of a record into the folder of its JSON. Returns their paths."""
    if record["kind"] != "scenario":
        return [ratios.draw(record, _named(stem, ""))]
    runs, heading = record["runs"], record["title"]
    if of_paper := papers.PICTURES.get(record.get("scenario", "")):
        return [of_paper(record, _named(stem, ""))]
    found: list[Path] = []
    if len(runs) == 1:
        found.append(run.draw(runs[0], heading, _named(stem, "")))
    elif (beside := bars.draw(runs, heading, _named(stem, ""))) is not None:
        found.append(beside)
    elif (swept := sweep.draw(runs, heading, _named(stem, ""))) is not None:
        found.append(swept)
    if with_latency := [r for r in runs if r["hdr"]]:
        found.append(latency.draw(with_latency, heading, _named(stem, "-latency")))
    return found


def _named(stem: Path, what: str) -> Path:
    return stem.with_name(f"{stem.name}{what}.png")
