"""Lanes of a source of a table, for tests that read them from states."""

from collections.abc import Iterable

from penstock.connectors.tables.table_source import TableLane, TableSource
from penstock.contract.manifest import SplitState

ROWS_MAX = 1000  # more than any test of lanes has


def opened(source: TableSource, states: Iterable[SplitState] | None = None) -> list[TableLane]:
    """Open all lanes: from the start, or from states."""
    return [source.open(state) for state in states or source.splits()]


def states(lanes: Iterable[TableLane]) -> list[SplitState]:
    """Return where the lanes are."""
    return [lane.state() for lane in lanes]


def take(lanes: Iterable[TableLane], at_once: int = 7) -> list[dict[str, object]]:
    """Read what is there now, sorted by number."""
    found: list[dict[str, object]] = []
    for lane in lanes:
        while (read := lane.read(at_once)) is not None:
            found += read.batch.to_pylist()
            assert len(found) < ROWS_MAX, "rows are read again and again"
    return sorted(found, key=lambda row: str(row["number"]).zfill(9))


def numbers(lanes: Iterable[TableLane]) -> list[object]:
    """Read what is there now, and return the numbers."""
    return [row["number"] for row in take(lanes)]
