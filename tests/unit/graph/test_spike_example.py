"""The example spike on input that is not as it must be: messages name the file and the line, or rows go aside."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.graph.entrypoint import resolve

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
GOOD = ["ts,mote,light,temperature", *(f"2026-01-01 00:00:{n:02},7,1,20.0" for n in range(8))]


@pytest.fixture
def spike(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delitem(sys.modules, "spike", raising=False)
    resolve("spike:job", "here")
    return sys.modules["spike"]


def ran(spike: ModuleType, folder: Path, form: str = "csv", dead_letters: str = "") -> Any:
    params = {"input": folder, "output": "out", "format": form, "dead_letters": dead_letters, "rate": "0"}
    return ps.run(spike.job, params, collect=True)


def write_text(folder: Path, *more: str) -> None:
    (folder / "part-1.csv").write_text("\n".join([*GOOD, *more]) + "\n")


def test_a_spike_is_found_in_text_whatever_the_order_of_columns(spike: ModuleType, tmp_path: Path) -> None:
    write_text(tmp_path, "2026-01-01 00:00:08,7,1,122.153")
    (found,) = ran(spike, tmp_path)["spikes"]
    assert (found["mote"], found["temperature"], found["average"]) == (
        7,
        122.153,
        (8 * 200_000 + 1_221_530) / 9 / 10_000,
    )


@pytest.mark.parametrize(
    "line",
    [
        "2026-01-01 00:00:08,7,20.0",
        "2026-01-01 00:00:08,7,1,warm",
        "2026-01-01 00:00:08,seven,1,20.0",
        "yesterday,7,1,20.0",
    ],
)
def test_a_line_that_is_no_reading_fails_the_job_with_its_place(spike: ModuleType, tmp_path: Path, line: str) -> None:
    write_text(tmp_path, line)
    with pytest.raises(ps.PenstockError, match=r"part-1\.csv.*line 10"):
        ran(spike, tmp_path)


def test_text_in_parquet_where_a_number_is_due_is_refused(spike: ModuleType, tmp_path: Path) -> None:
    table = pa.table({"mote": [7], "ts": pa.array([0], pa.timestamp("us")), "temperature": ["warm"]})
    pq.write_table(table, tmp_path / "part-1.parquet")
    with pytest.raises(ps.ConfigError, match="temperature"):
        ran(spike, tmp_path, "parquet")


def test_a_reading_without_a_temperature_fails_the_job_or_is_a_dead_letter(spike: ModuleType, tmp_path: Path) -> None:
    write_text(tmp_path, "2026-01-01 00:00:08,7,1,", "2026-01-01 00:00:09,7,1,50.0")
    with pytest.raises(ps.UserCodeError, match="temperature"):
        ran(spike, tmp_path)
    result = ran(spike, tmp_path, dead_letters="dead")
    assert [row["average"] for row in result["spikes"]] == [(8 * 200_000 + 500_000) / 9 / 10_000]
    assert [(row["mote"], row["temperature"]) for row in result["bad"]] == [(7, None)]


def test_an_unknown_format_is_refused(spike: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ps.ConfigError, match=r"job\.parameters\.format is 'xml'; it must be one of parquet, csv"):
        ran(spike, tmp_path, "xml")
