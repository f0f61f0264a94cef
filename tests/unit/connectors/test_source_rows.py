import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError
from penstock.base.limits import EVENT_TIME_US_MAX, SOURCE_READ_BYTES_MAX
from penstock.connectors.source_rows import Stamper, head
from penstock.contract.event_time import EventTime, TimeUnit
from penstock.contract.ids import SplitId
from penstock.steps.base import BOUND_COLUMN, NO_BOUND

SPLIT = SplitId("a.parquet")


def batch(*sizes: int) -> pa.RecordBatch:
    return pa.record_batch({"line": ["x" * size for size in sizes]})


def test_small_rows_are_bounded_by_their_number() -> None:
    assert head(batch(*[10] * 100), 40).num_rows == 40
    assert head(batch(*[10] * 100), 400).num_rows == 100


def test_large_rows_are_bounded_by_their_bytes() -> None:
    found = head(batch(*[1 << 20] * 20), 1000)
    assert 4 <= found.num_rows <= 8
    assert found.nbytes <= SOURCE_READ_BYTES_MAX


def test_rows_of_unequal_size_fit_too() -> None:
    found = head(batch(7 << 20, 7 << 20, *[1] * 1000), 1000)
    assert found.num_rows == 1


def test_a_single_row_of_any_size_is_read() -> None:
    assert head(batch(3 * SOURCE_READ_BYTES_MAX, 1), 10).num_rows == 1


def test_a_far_time_does_not_advance_the_time_of_its_split() -> None:
    """No window takes such a row, so it makes no other row late. An early one less the disorder would leave 64 bits."""
    times = [-(2**63) + 3, 100, 2**63 - 1, EVENT_TIME_US_MAX + 1, 90, 200, None]
    rows = pa.record_batch({"at": pa.array(times, pa.int64()).cast(pa.timestamp("us"))})
    stamper = Stamper(EventTime("at", 10), None)
    assert stamper.stamp(rows, SPLIT, 0).column(BOUND_COLUMN).to_pylist() == [NO_BOUND, NO_BOUND, 90, 90, 90, 90, 190]
    assert stamper.max_ts == 200


def test_a_number_that_no_time_holds_is_refused_with_its_place_and_a_remedy() -> None:
    stamper = Stamper(EventTime("at", 10, unit=TimeUnit.SECONDS), None)
    with pytest.raises(ConfigError, match=r"'a\.parquet', rows from offset 7 on: .*correct the unit of event time"):
        stamper.stamp(pa.record_batch({"at": [1, 2**62]}), SPLIT, 7)
