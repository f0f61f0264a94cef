"""A sample of the failpoints: one effect of a real process is hit, and the output is exact all the same.

``python -m tests.failpoints`` hits every place. An order that was not carried out fails the test: then
its pattern does not name a place any more.
"""

from pathlib import Path

import pytest

from tests.failpoints.orders import Action, Order
from tests.failpoints.runs import FailpointRun, nothing_more
from tests.integration.local_job import make_lines
from tests.support.long_tests import long_only

SAMPLE = [
    # What makes output visible, and what commits it.
    Order("link * < file_sink*", 1, Action.KILL_AFTER),
    Order("fsync file_output.stage < *", 1, Action.ERROR),
    Order("commit sqlite.Database.write < sqlite.SqliteMetaStore.swap", 3, Action.LOST),
    # What a checkpoint writes.
    Order("write * < blobs*", 2, Action.ERROR),
    # What one process tells another.
    Order("call deliver Envelope TaskAck", 1, Action.KILL_BEFORE),
    Order("send TaskAck *", 1, Action.PAUSE),
]
IN_LONG_RUNS = [
    Order("link * < file_sink*", 2, Action.LOST),
    Order("rename file_output.OutputFolder._write*", 1, Action.ERROR),
    Order("reply deliver Envelope Reset", 1, Action.LOST),
    Order("reply put PutObject", 2, Action.LOST),
]


@pytest.mark.parametrize(
    "order",
    [*SAMPLE, *(pytest.param(order, marks=long_only) for order in IN_LONG_RUNS)],
    ids=lambda order: f"{order.action} {order.nth} {order.place}",
)
def test_the_output_is_exact_whatever_effect_is_hit(tmp_path: Path, order: Order) -> None:
    folders = make_lines(tmp_path, files=2, lines=200)
    outcome = FailpointRun(tmp_path, folders, order, meanwhile=nothing_more).run()
    assert outcome.violations == []
    effect = order.place.partition(" ")[0]
    assert outcome.hit, (
        f"not carried out, among {sorted(place for place in outcome.counts if place.startswith(effect))}"
    )
