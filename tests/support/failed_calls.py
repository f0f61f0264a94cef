"""A source one of whose outgoing calls fails, once: what is read then, and whether anything is lost or repeated.

A call that fails raises OSError, as a disk or a client does. Whoever reads tries again: with a reader that is opened
where the last one was, as the engine does, or with the same one.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from penstock.base.errors import StorageError
from penstock.contract.manifest import SplitState
from penstock.ports import Source, SplitReader
from penstock.testing.connectors.outgoing_calls import Action, Effects

T = TypeVar("T")
MakeSource = Callable[[], Source]
Found = dict[str, tuple[list[tuple[int, Any]], SplitState]]
"""For each split its rows with their offsets, and its last state."""

AT_ONCE = 3  # rows
READS_MAX = 1000  # of a split: more than any test needs


class OneFailure:
    """The call number ``at`` of a source (from 1 on) fails; 0: none."""

    def __init__(self, make: MakeSource, at: int, *, anew: bool) -> None:
        """With ``anew`` a reader that has raised is given up."""
        self.calls = 0
        self.failed = 0
        self._make, self._anew = make, anew
        self._effects = Effects(at, Action.FAIL)

    def read(self) -> Found:
        """Read all splits to their end. Raises what a source raises, unless it says that a retry may help."""
        with self._effects.watched():
            source = self._again(self._make)
            states = self._again(source.splits, (StorageError, OSError))  # the leader lists them again after both
            found: Found = {str(state.split): self._split(source, state) for state in states}
        self.calls = self._effects.calls
        return found

    def _split(self, source: Source, state: SplitState) -> tuple[list[tuple[int, Any]], SplitState]:
        rows: list[tuple[int, Any]] = []
        reader, quiet = self._opened(source, state), False
        for _ in range(READS_MAX):
            if state.finished or (quiet and not source.bounded):
                reader.close()
                return rows, state
            try:
                read = reader.read(AT_ONCE)
            except StorageError:
                self.failed += 1
                assert reader.state().offset == state.offset, "a read that fails takes no rows"
                if self._anew:
                    reader.close()
                    reader = self._opened(source, state)
                continue
            quiet = read is None
            if read is not None:
                rows += zip(range(read.offset, read.offset + read.batch.num_rows), read.batch.to_pylist(), strict=True)
            state = reader.state()
        raise AssertionError(f"split {state.split} does not end")

    def _opened(self, source: Source, state: SplitState) -> SplitReader:
        return self._again(lambda: source.open(state))

    def _again(self, work: Callable[[], T], passing: tuple[type[Exception], ...] = (StorageError,)) -> T:
        try:
            return work()
        except passing:
            self.failed += 1
            return work()


def check_failures(make: MakeSource, *, every: int = 1, first: int = 1) -> int:
    """Fail the calls ``first``, ``first + every`` and so on, one in each run. Returns how many there are.

    Whatever fails, rows and states are those of a run in which nothing does.
    """
    undisturbed = OneFailure(make, 0, anew=False)
    due = undisturbed.read()
    assert sum(len(rows) for rows, _ in due.values()) > 1, "there is something to read"
    for at in range(first, undisturbed.calls + 1, every):
        for anew in (False, True):
            one = OneFailure(make, at, anew=anew)
            with _named(f"call {at} fails, and the reader is {'opened anew' if anew else 'the same'}"):
                assert one.read() == due
    return undisturbed.calls


@contextmanager
def _named(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(what)
        raise
