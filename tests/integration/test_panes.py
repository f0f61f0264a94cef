"""The example with panes: last panes are exact through rescales and kills, and no pane is missing or there twice."""

from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.integration.test_temperature import input_files, minutes, written
from tests.integration.through_kills import run_windows_through_kills
from tests.support.long_tests import long_only


@long_only
def test_last_panes_are_exact_and_earlier_ones_lead_to_them(tmp_path: Path) -> None:
    on_time, late = input_files(tmp_path / "in")
    run_windows_through_kills("panes", tmp_path)

    rows: Any = written(tmp_path / "out")
    assert Counter((*row[:3], *row[5:]) for row in rows if row[4]) == minutes(on_time)
    assert Counter(written(tmp_path / "late")) == Counter(late)
    panes: dict[Any, list[Any]] = defaultdict(list)
    for mote, start, _, pane, final, count, *_ in rows:
        panes[mote, start].append((pane, final, count))
    assert len(rows) > len(panes), "there are early panes"
    for of_window in panes.values():
        numbers, finals, counts = zip(*sorted(of_window), strict=True)
        assert numbers == tuple(range(len(numbers)))
        assert [pane for pane, final in enumerate(finals) if final] == [len(finals) - 1]
        assert all(one <= two for one, two in pairwise(counts)), "totals do not fall"
