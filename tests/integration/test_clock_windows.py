"""Windows by the clock count each row once through rescales 2 -> 3 -> 2 and kills, and no window twice."""

from collections import Counter, defaultdict
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.integration.test_temperature import FILES, input_files, readings, written
from tests.integration.through_kills import run_step_through_kills
from tests.support.long_tests import long_only

HALVES = """\
keyBy: [mote]
window:
  size: 500ms
  time: clock
  compute:
    - {name: count, function: count}
    - {name: sum, function: sum, column: temperature}
"""


@long_only
def test_each_row_is_in_one_window(tmp_path: Path) -> None:
    input_files(tmp_path / "in")
    expected: dict[int, Any] = defaultdict(lambda: (0, 0.0))
    for row in (row for file in range(FILES) for row in readings(file)):
        count, total = expected[row.mote]
        expected[row.mote] = count + 1, total + row.temperature

    run_step_through_kills(tmp_path, HALVES, late=False)

    found: dict[int, Any] = defaultdict(lambda: (0, 0.0))
    rows: Any = written(tmp_path / "out")
    for mote, start, end, count, total in rows:
        assert end - start == timedelta(milliseconds=500)
        found[mote] = found[mote][0] + count, found[mote][1] + total
    assert found == expected
    windows = Counter((mote, start) for mote, start, *_ in rows)
    assert set(windows.values()) == {1}
    assert len({start for _, start in windows}) > 5, "windows have ended on the way"
