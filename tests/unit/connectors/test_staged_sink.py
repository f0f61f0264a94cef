"""What is told to a target before rows are staged: up to which epoch its output is visible."""

from pathlib import Path

import pyarrow as pa

from penstock.connectors.staged_sink import MarkedOutput, StagedSink, arrow_form
from penstock.contract.ids import Epoch, TaskId
from penstock.protocol.marked import Wanted
from tests.support.staged_output import ROWS, staged


class Shelf:
    """A target that keeps what it is told and asked."""

    name, form, whole = "shelf", arrow_form(ROWS.schema), False

    def __init__(self) -> None:
        self.told: list[Epoch] = []
        self.wanted: list[Wanted] = []

    def claim(self) -> None:
        """Nothing can be wrong."""

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    def output(self, job_uid: str, task: TaskId) -> MarkedOutput:
        return self

    def known(self, visible: Epoch) -> Epoch:
        self.told.append(visible)
        return visible

    def publish(self, wanted: Wanted, blocks: object) -> int:
        self.wanted.append(wanted)
        return 0

    def close(self) -> None:
        """Nothing is open."""


def test_a_first_marker_is_of_the_newest_committed_epoch(tmp_path: Path) -> None:
    shelf = Shelf()
    sink = StagedSink("out", shelf, tmp_path)
    sink.claim("job", fresh=True)
    sink.publisher.publish(staged(sink, 7, committed=5), Epoch(7))
    assert shelf.told == [5], "epoch 6 was aborted, and its number may come again"
    assert [(wanted.epoch, wanted.known) for wanted in shelf.wanted] == [(7, 5)]
    sink.close()
