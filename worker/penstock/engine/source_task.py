"""Reading the splits of a source task: whose turn it is, and what the core is told of it."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from penstock.contract.ids import Epoch, SplitId
from penstock.contract.manifest import SplitState
from penstock.model.elements import Data
from penstock.protocol.task_events import RowsRead, SplitEmpty, SplitEnded
from penstock.transport.batches import measure

if TYPE_CHECKING:
    from penstock.ports import Source, SplitReader

_CUTS_KEPT = 16  # aborted epochs leave theirs behind; more than these are nobody's any more

SourceEvent = RowsRead | SplitEmpty | SplitEnded


class SourceTask:
    """The readers of one source task, used by its thread only."""

    def __init__(self, name: str, source: "Source", batch_rows: int) -> None:
        """Read at most ``batch_rows`` at once from the splits of the step ``name``."""
        self.name = name
        self._source = source
        self._batch_rows = batch_rows
        self._readers: dict[SplitId, SplitReader] = {}
        self._turn: list[SplitId] = []
        self._cuts: dict[Epoch, tuple[SplitState, ...]] = {}
        self.reading: tuple[SplitId, int] | None = None

    def open(self, states: Iterable[SplitState]) -> None:
        """Open splits where their states say. Raises StateError when one cannot be replayed."""
        for state in states:
            self._readers[state.split] = self._source.open(state)
        self._turn = list(self._readers)

    def close(self, splits: Iterable[SplitId] | None = None) -> None:
        """Close some splits, or all."""
        for split in list(self._readers if splits is None else splits):
            reader = self._readers.pop(split, None)
            if reader is not None:
                reader.close()
        self._turn = list(self._readers)

    def states(self, epoch: Epoch) -> tuple[SplitState, ...]:
        """Return where every split stands, for the manifest of ``epoch``."""
        states = tuple(reader.state() for reader in self._readers.values())
        self._cuts[epoch] = states
        while len(self._cuts) > _CUTS_KEPT:
            del self._cuts[next(iter(self._cuts))]
        return states

    def committed(self, epoch: Epoch) -> None:
        """Tell the readers which offsets are in a committed checkpoint."""
        for state in self._cuts.pop(epoch, ()):
            reader = self._readers.get(state.split)
            if reader is not None:
                reader.committed(epoch, state)

    def next(self, reads: Callable[[SplitId], bool]) -> SourceEvent | None:
        """Ask the next split whose turn it is; None when no split may be read."""
        for _ in range(len(self._turn)):
            split = self._turn.pop(0)
            self._turn.append(split)
            if reads(split):
                return self._ask(split, self._readers[split])
        return None

    def _ask(self, split: SplitId, reader: "SplitReader") -> SourceEvent:
        read = reader.read(self._batch_rows)
        if read is None:
            return SplitEnded(split) if reader.state().finished else SplitEmpty(split)
        self.reading = (split, read.offset)
        batch: Any = read.batch
        return RowsRead(
            split, Data(batch, batch.num_rows, measure(batch), None, reader.state().max_ts)
        )
