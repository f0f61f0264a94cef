"""Stores results: one JSON file for each command, with all that is needed to judge it."""

import gzip
import json
import shlex
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import histogram
from bench.samples import Samples, Series
from bench.scenario import Scenario

OUT = Path(__file__).parent / "out"  # what is measured here
PUBLISHED = Path(__file__).parent / "results"  # raw records of published figures, compressed
Record = dict[str, Any]


def command_line(module: str, arguments: Sequence[str]) -> str:
    """Return the command of a record, without ``--out``, which names a folder of one machine."""
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--out":
            next(words, None)
        elif not word.startswith("--out="):
            kept.append(word)
    return shlex.join(["python", "-m", module, *kept])


def of_scenario(
    name: str, title: str, module: str, made_on: Record, runs: list[Record], *, targets: Iterable[Record] = ()
) -> tuple[str, Record]:
    """Return the stem and the record of a scenario that ``python -m module`` has just measured."""
    record: Record = {
        "kind": "scenario",
        "scenario": name,
        "title": title,
        "command": command_line(module, sys.argv[1:]),
        "machine": made_on,
        "targets": list(targets),
        "runs": runs,
    }
    return f"{name}-{made_on['revision']}-{time.strftime('%Y%m%dT%H%M%S')}", record


def run_record(scenario: Scenario, samples: Samples, found: Record, wrong: list[str]) -> Record:
    """Return the data of one run that a record keeps."""
    buckets = histogram.in_totals(samples.totals)
    return {
        "name": scenario.name,
        "exact": not wrong,
        "wrong": wrong,
        "results": found,
        "scenario": _said(asdict(scenario)),
        "totals": {k: v for k, v in samples.totals.items() if "." not in k},
        "hdr": histogram.of_buckets(buckets).encode().decode() if buckets else None,
        "samples": {
            "ticks": _rounded(samples.ticks()),
            "source": _rounded(samples.step("words", "rows_out")),
            "counted": _rounded(samples.step("counts", "rows_in")),
            "queued_bytes": _rounded(samples.step("counts", "queue_bytes")),
            "memory": _rounded(samples.memory),
            "cpu_s": _rounded(samples.cpu),
            "wire_bytes": _rounded(samples.wire),
            "stolen_s": _rounded(samples.stolen),
            "begun": round(samples.begun % 1, 3),  # fraction of a second of the clock
            "latency_us": {
                str(second): {str(low): n for low, n in sorted(buckets.items())}
                for second, buckets in samples.ages().items()
            },
            "checkpoints": samples.epochs(),
            "events": [asdict(event) for event in samples.events],
            "pauses": samples.pauses,
        },
    }


def write(stem: str, record: Record, out: Path = OUT) -> Path:
    """Write a record; lists of samples stay on one line each."""
    out.mkdir(parents=True, exist_ok=True)
    target = out / f"{stem}.json"
    target.write_text(_spell(record, 0) + "\n")
    return target


def read(path: Path) -> Record:
    """Read one record, compressed or not."""
    raw = path.read_bytes()
    found: Record = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    return found


def stem_of(path: Path) -> str:
    """Return the name of a record: scenario, revision and time."""
    return path.name.removesuffix(".gz").removesuffix(".json")


def read_all(folder: Path = OUT) -> dict[str, Record]:
    """Return every record of a folder by its stem, in the order of their names."""
    return {stem_of(path): read(path) for path in sorted(folder.glob("*.json*")) if _is_one(path)}


def _is_one(path: Path) -> bool:
    return path.name.endswith((".json", ".json.gz"))


def publish(path: Path, folder: Path = PUBLISHED) -> Path:
    """Keep a record, compressed; the same record gives the same bytes."""
    target = folder / f"{stem_of(path)}.json.gz"
    spelt = _spell(read(path), 0) + "\n"
    target.write_bytes(gzip.compress(spelt.encode(), 9, mtime=0))
    return target


def series(record: Mapping[str, Any], name: str) -> Series:
    """Return a series of the samples of a run's record."""
    return [(at, value) for at, value in record["samples"].get(name, ())]


def _said(plain: Record) -> Record:
    """Leave out empty fields of a scenario."""
    return {k: v for k, v in plain.items() if v not in (None, (), {}, 0.0)}


def _rounded(found: Iterable[tuple[float, float]]) -> list[list[float]]:
    return [[round(at, 2), value] for at, value in found]


def _spell(value: Any, depth: int) -> str:
    """Return JSON with one line for each field and each series of samples."""
    if isinstance(value, dict) and value and depth < 4 and any(map(_large, value.values())):
        inner = ",\n".join(f"{' ' * (depth + 1)}{json.dumps(k)}: {_spell(v, depth + 1)}" for k, v in value.items())
        return "{\n" + inner + "\n" + " " * depth + "}"
    if isinstance(value, list) and value and depth < 3 and all(isinstance(v, dict) for v in value):
        return "[\n" + ",\n".join(_spell(v, depth + 1) for v in value) + "\n" + " " * depth + "]"
    return json.dumps(value, separators=(",", ":"))


def _large(value: Any) -> bool:
    return isinstance(value, dict | list) and bool(value)
