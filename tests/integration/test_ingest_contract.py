"""The ingest source keeps the contract of sources, with a real sender at the other end."""

import queue
import threading
from pathlib import Path

from penstock.connectors.ingest import IngestReader, IngestSource
from penstock.contract.ids import Epoch
from penstock.contract.manifest import SplitState
from penstock.ports import Read
from penstock_spark.push import Push, Pusher
from tests.integration.test_ingest import LINE, write
from tests.support import contracts

ROWS = 300


class Waiting:
    """A reader that waits for its sender: the contract's check asks as fast as it can."""

    def __init__(self, own: IngestReader) -> None:
        self._own = own
        self.state, self.committed, self.close = own.state, own.committed, own.close

    def read(self, max_rows: int) -> Read | None:
        pause = threading.Event()
        while (read := self._own.read(max_rows)) is None and not self._own.state().finished:
            pause.wait(0.002)
        return read


class Pushed:
    """The source, whose readers wait; at the end its senders are let go."""

    bounded = True

    def __init__(self, own: IngestSource) -> None:
        self._own = own
        self.schema, self.splits = own.schema, own.splits

    def open(self, state: SplitState) -> Waiting:
        return Waiting(self._own.open(state))

    def let_go(self) -> None:
        for state in self.splits():
            reader = self.open(state)
            while reader.read(ROWS) is not None:
                pass
            reader.committed(Epoch(1), reader.state())
            reader.close()


def push(push: Push, done: "queue.Queue[str]") -> None:
    """Push on a daemon thread, so that the tests can end when the check fails."""
    threading.Thread(target=lambda: done.put(Pusher(push).run().answer), daemon=True).start()


def test_ingest_source(tmp_path: Path) -> None:
    files = write(tmp_path / "in", 2, ROWS // 2)
    folder = str(tmp_path / "announce")
    source = Pushed(IngestSource(2, folder, LINE))
    done: queue.Queue[str] = queue.Queue()
    for number in range(2):
        push(Push(folder, (files[number],), number, 2, sender=7), done)
    contracts.check_source(source)
    source.let_go()
    assert {done.get(timeout=60) for _ in files} == {"finished"}
