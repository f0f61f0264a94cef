"""A job of functions with types is exact in real processes: through kills, and a rescale 2 -> 3 -> 2."""

import random
from collections import Counter, deque
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration.through_kills import run_module_through_kills

FILES, ROWS, KEYS = 4, 1500, 40
MODULE = """
import penstock as ps


@ps.record
class Reading:
    mote: int
    kind: ps.Enum["LOW", "HIGH", "ODD"]
    value: float
    at: ps.Time


@ps.record
class Mean:
    mote: int
    mean: float
    kinds: int
    at: ps.Time


@ps.record
class First:
    mote: int
    kind: str


@ps.state
class Seen:
    number: int = 1000
    last: ps.Ring[float, 5]
    kinds: ps.Map[ps.Enum["LOW", "HIGH", "ODD"], int]
    label: str = "none"


def plain(r: Reading) -> bool:
    return r.value >= 0


def means(r: Reading, s: Seen, out: ps.Out[Mean, {"first": First}]):
    s.number += 1
    if r.kind not in s.kinds:
        out.to("first", First(r.mote, r.kind))
    s.kinds[r.kind] = s.kinds.get(r.kind, 0) + 1
    s.last.append(r.value)
    s.label = f"{r.kind} {s.number}"
    out.emit(Mean(r.mote, sum(s.last) / len(s.last), len(s.kinds), r.at))
    if r.value > 99:
        raise ValueError(f"{s.label}: too high")
"""
JOB = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: typed}
spec:
  replicas: 2
  checkpoint: {interval: 2s}
  job:
    parameters: {folder: .}
    graph:
      steps:
        - name: readings
          source:
            parquet: {path: "${folder}/in", rate: 400}
        - {name: plain, filter: {function: "typed_readings:plain"}}
        - name: means
          keyBy: [mote]
          process: {function: "typed_readings:means", onError: dead-letter}
        - {name: output, sink: {parquet: {path: "${folder}/out"}}}
        - {name: firsts, inputs: [means.first], sink: {parquet: {path: "${folder}/first"}}}
        - {name: bad, inputs: [means.dead-letter], sink: {parquet: {path: "${folder}/bad"}}}
"""


def write_input(folder: Path) -> list[dict[str, Any]]:
    """Write files, of which each has motes of its own."""
    chosen, rows = random.Random(5), []
    folder.mkdir()
    for file in range(FILES):
        own = [
            {
                "mote": file * KEYS + chosen.randrange(KEYS),
                "kind": chosen.choice(["LOW", "HIGH", "ODD"]),
                "value": chosen.uniform(-5, 101),
                "at": number,
            }
            for number in range(ROWS)
        ]
        rows += own
        schema = pa.schema({"mote": pa.int64(), "kind": pa.string(), "value": pa.float64(), "at": pa.timestamp("us")})
        pq.write_table(pa.Table.from_pylist(own, schema), folder / f"part-{file}.parquet")
    return rows


def model(rows: list[dict[str, Any]]) -> tuple[Counter[Any], Counter[Any], Counter[Any]]:
    """Return the rows of the three outputs, computed by plain Python."""
    means: Counter[Any] = Counter()
    firsts: Counter[Any] = Counter()
    bad: Counter[Any] = Counter()
    states: dict[int, tuple[deque[float], set[str], list[int]]] = {}
    for row in rows:
        last, kinds, number = states.setdefault(row["mote"], (deque(maxlen=5), set(), [1000]))
        if row["value"] < 0:
            continue
        if row["value"] > 99:
            bad[row["mote"], row["at"], f"ValueError: {row['kind']} {number[0] + 1}: too high"] += 1
            continue
        number[0] += 1
        if row["kind"] not in kinds:
            firsts[row["mote"], row["kind"]] += 1
        kinds.add(row["kind"])
        last.append(row["value"])
        means[row["mote"], sum(last) / len(last), len(kinds), row["at"]] += 1
    return means, firsts, bad


def written(folder: Path, *columns: str) -> Counter[Any]:
    table = pq.read_table(folder)
    return Counter(zip(*(_plain(table.column(name)) for name in columns), strict=True))


def _plain(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return values


def test_functions_with_types_are_exact_through_kills_and_rescales(tmp_path: Path) -> None:
    rows = write_input(tmp_path / "in")
    run_module_through_kills(tmp_path, "typed_readings", MODULE, JOB)

    means, firsts, bad = model(rows)
    assert bad, "the input has records that fail"
    assert written(tmp_path / "out", "mote", "mean", "kinds", "at") == means
    assert written(tmp_path / "first", "mote", "kind") == firsts
    assert written(tmp_path / "bad", "mote", "at", "error") == bad
