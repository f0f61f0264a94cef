"""A source one of whose outgoing calls fails, once: what is read then, and whether anything is lost or repeated.

A call that fails raises OSError, as a disk or a client does. Whoever reads tries again: with a reader that is opened
where the last one was, as the engine does, or with the same one.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar

from penstock.base.errors import StorageError
from penstock.base.values import replace
from penstock.contract.manifest import SplitState
from penstock.ports import Source, SplitReader
from penstock.testing.connectors.outgoing_calls import Action, Effects

T = TypeVar("T")
MakeSource = Callable[[], Source]
Found = dict[str, tuple[list[tuple[int, Any]], SplitState]]
"""For each split its rows with their offsets, and its last state."""

AT_ONCE = 3  # rows
READS_MAX = 1000  # of a split: more than any test needs


@dataclass(frozen=True, slots=True)
class Given:
    """What a check is given: see :func:`check_failures`."""

    make: MakeSource
    states: Sequence[SplitState] | None
    asking: Collection[str]


class EffectsOf(Effects):
    """Counts outgoing calls of functions only whose names, behind those of their modules, begin with one of ``asking``.

    All outgoing calls without any.
    """

    def __init__(self, asking: Collection[str], at: int, action: Action) -> None:
        super().__init__(at, action)
        self._asking = tuple(asking)

    def _seen(self, frame: FrameType, event: str, callee: Any) -> None:
        if event == "c_call":
            module = getattr(callee, "__module__", None) or type(getattr(callee, "__self__", None)).__module__
            name = callee.__name__
        else:
            module, name = str(frame.f_globals.get("__name__")), frame.f_code.co_qualname
        if not self._asking or f"{module}.{name}".startswith(self._asking):
            super()._seen(frame, event, callee)


class OneFailure:
    """The call number ``at`` of a source (from 1 on) fails; 0: none."""

    def __init__(self, given: "Given", at: int, *, anew: bool) -> None:
        """With ``anew`` a reader that has raised is given up."""
        self.calls = 0
        self.failed = 0
        self._given, self._anew = given, anew
        self._effects = EffectsOf(given.asking, at, Action.FAIL)

    def read(self) -> Found:
        """Read all splits to their end. Raises what a source raises, unless it says that a retry may help."""
        with self._effects.watched():
            source = self._again(self._given.make)
            states = self._given.states
            if states is None:
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


def check_failures(
    make: MakeSource,
    *,
    every: int = 1,
    states: Sequence[SplitState] | None = None,
    asking: Collection[str] = (),
) -> int:
    """Fail the first call, and each that is ``every`` calls behind another one, one in each run.

    Whatever fails, rows and states are those of a run in which nothing does. Splits are read from ``states`` on, but
    for those without rows, or from their beginning. With ``asking`` the calls of some functions count, as
    :class:`EffectsOf` says. Returns how many calls there are.
    """
    given = Given(make, states, asking)
    if states is not None:
        full = [name for name, (rows, _) in OneFailure(given, 0, anew=False).read().items() if rows]
        given = replace(given, states=[state for state in states if str(state.split) in full])
    undisturbed = OneFailure(given, 0, anew=False)
    due = undisturbed.read()
    assert sum(len(rows) for rows, _ in due.values()) > 1, "there is something to read"
    for at in range(1, undisturbed.calls + 1, every):
        for anew in (False, True):
            one = OneFailure(given, at, anew=anew)
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
