"""The window oracle against a plain Python model, and against outputs broken in one place."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from penstock_spark import oracle_windows as windows
from penstock_spark import temperature

REQUEST = temperature.TemperatureRequest(rows=3000, files=3, motes=5, late_share=0.05)
TIMES = windows.Windowing(size_us=60_000_000, bound_us=30_000_000, lateness_us=10_000_000)
US = pa.timestamp("us")
Table = list[dict[str, Any]]


def model() -> tuple[Table, Table]:
    """Compute windows and late rows one row at a time."""
    kept: dict[tuple[int, int], list[float]] = defaultdict(list)
    late: Table = []
    for number in range(REQUEST.files):
        table = temperature.rows_of(REQUEST, number)
        earlier: int | None = None
        rows = zip(*(table[c].cast(t).to_pylist() for c, t in COLUMNS.items()), strict=True)
        for mote, ts, value in rows:
            start = ts // TIMES.size_us * TIMES.size_us
            end = start + TIMES.size_us
            if earlier is not None and end + TIMES.lateness_us <= earlier - TIMES.bound_us:
                late.append({"mote": mote, "ts": ts, "temperature": value})
            else:
                kept[mote, start].append(value)
            earlier = ts if earlier is None else max(earlier, ts)
    return [row_of(mote, start, values) for (mote, start), values in kept.items()], late


COLUMNS = {"mote": pa.int64(), "ts": pa.int64(), "temperature": pa.float64()}


def row_of(mote: int, start: int, values: list[float]) -> dict[str, Any]:
    numbers = {"count": len(values), "sum": sum(values), "min": min(values), "max": max(values)}
    times = {"window_start": start, "window_end": start + TIMES.size_us}
    return {"mote": mote, **times, **numbers, "mean": sum(values) / len(values)}


def write(folder: Path, rows: Table, times: tuple[str, ...]) -> Path:
    folder.mkdir()
    table = pa.Table.from_pylist(rows)
    for name in times:
        index = table.schema.get_field_index(name)
        table = table.set_column(index, name, table[name].cast(US))
    pq.write_table(table, folder / "000000000001-s.parquet")
    return folder


def check(spark: SparkSession, tmp_path: Path, rows: Table, late: Table) -> windows.WindowVerdict:
    temperature.write(spark, REQUEST, tmp_path / "in")
    output = write(tmp_path / "out", rows, ("window_start", "window_end"))
    side = write(tmp_path / "late", late, ("ts",))
    return windows.check(spark, windows.Folders(tmp_path / "in", output, side), TIMES)


def test_the_model_is_exact(spark: SparkSession, tmp_path: Path) -> None:
    rows, late = model()
    verdict = check(spark, tmp_path, rows, late)
    assert verdict.exact, verdict.first
    assert (verdict.windows_found, verdict.late_found) == (len(rows), len(late))
    assert len(late) > 20
    assert verdict.rows == REQUEST.rows


def test_every_kind_of_broken_window_is_found(spark: SparkSession, tmp_path: Path) -> None:
    rows, late = model()
    broken = [rows[i] for i in range(6)]
    rows[0]["count"] += 1
    rows[1]["mean"] += 1e-5
    rows[2]["window_end"] += 1
    rows[3]["mote"] += 1000  # one window is lost, and one is there that should not be
    rows.append(dict(rows[4]))
    rows.remove(rows[5])
    verdict = check(spark, tmp_path, rows, late)
    assert (verdict.windows_differing, verdict.late_differing) == (len(broken) + 1, 0)
    assert not verdict.exact
    assert all(str(w["window_start"]) in " ".join(verdict.first) for w in broken)


def test_every_kind_of_broken_late_row_is_found(spark: SparkSession, tmp_path: Path) -> None:
    rows, late = model()
    late.append(late[0])  # repeated
    late[1]["temperature"] += 1  # one is lost, and one is there that should not be
    late.remove(late[2])
    verdict = check(spark, tmp_path, rows, late)
    assert (verdict.windows_differing, verdict.late_differing) == (0, 4)
    assert not verdict.exact
