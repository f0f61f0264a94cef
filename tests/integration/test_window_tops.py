"""The warmest motes of each minute are exact through rescales 2 -> 3 -> 2 and kills, and come the best one first."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from tests.integration.test_temperature import input_files, minutes, written
from tests.integration.through_kills import run_step_through_kills
from tests.support.long_tests import long_only

WARMEST = """\
keyBy: [mote]
window:
  size: 1m
  allowedLateness: 10s
  top: {count: 3, by: sum}
  compute: [{name: sum, function: sum, column: temperature}]
"""


@long_only
def test_the_best_rows_of_windows_are_those_of_a_naive_model(tmp_path: Path) -> None:
    on_time, late = input_files(tmp_path / "in")
    sums: dict[Any, list[Any]] = defaultdict(list)
    for row in minutes(on_time):
        mote, start, end, _, total, *_ = row
        sums[start, end].append((total, mote))
    run_step_through_kills(tmp_path, WARMEST)

    found: dict[Any, list[Any]] = defaultdict(list)
    rows: Any = written(tmp_path / "out")
    for mote, start, end, total in rows:
        assert (total, mote) in sums[start, end]
        found[start, end].append(total)
    best = {window: sorted((total for total, _ in of_all), reverse=True)[:3] for window, of_all in sums.items()}
    assert dict(found) == best, "the best ones, in their order"
    assert Counter(written(tmp_path / "late")) == Counter(late)
