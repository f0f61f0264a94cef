"""Windows of all rows are exact through rescales 2 -> 3 -> 2 and kills."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from tests.integration.test_temperature import MINUTE, input_files, window_of, written
from tests.integration.through_kills import run_step_through_kills
from tests.support.long_tests import long_only

MINUTES = """\
windowAll:
  size: 1m
  allowedLateness: 10s
  compute:
    - {name: count, function: count}
    - {name: sum, function: sum, column: temperature}
    - {name: least, function: min, column: temperature}
    - {name: mean, function: mean, column: temperature}
"""


@long_only
def test_windows_of_all_rows_are_those_of_a_naive_model(tmp_path: Path) -> None:
    on_time, late = input_files(tmp_path / "in")
    windows: dict[Any, list[float]] = defaultdict(list)
    for row in on_time:
        windows[window_of(row)].append(row.temperature)
    run_step_through_kills(tmp_path, MINUTES)

    assert Counter(written(tmp_path / "out")) == Counter(
        (start, start + MINUTE, len(v), sum(v), min(v), sum(v) / len(v)) for start, v in windows.items()
    )
    assert Counter(written(tmp_path / "late")) == Counter(late)
