"""Checks of a source: a checkpoint may hold any of its positions, and the rows behind it are always the same."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa

from penstock.contract.ids import Epoch
from penstock.contract.manifest import SplitState, misfit
from penstock.ports import Read, Source, SplitReader
from penstock.testing.connectors.rule_broken import must

MakeSource = Callable[[], Source]
Rows = list[Any]

READ_ROWS = 1000
ODD_ROWS = 7  # no divisor of usual block sizes
POSITIONS_MAX = 100  # of one split, spread over it
ROWS_MAX = 100_000  # of one split
QUIET_READS = 20  # an unbounded source has nothing more after so many reads without rows
IDLE_READS_MAX = 10_000  # a bounded source has ended by then


def check_source(make: MakeSource, more: Callable[[], object] | None = None) -> int:
    """Check every rule of a source against input that ``make``'s sources read. Returns the number of rows.

    ``make`` opens the source as a new process does. It needs an input with at least two rows, and at most
    ``ROWS_MAX`` a split. ``more`` adds rows to the input of a source without an end. Raises RuleBroken.
    """
    source = make()
    states = _check_splits(source, make())
    read = 0
    for state in states:
        read += _check_split(make, source, state, more)
    must(read > 1, "rows", f"the input has {read} rows: give the kit an input with some")
    return read


def check_bad_input(make: MakeSource, named: str, spoil: Callable[[], object] | None = None) -> None:
    """Check that input which cannot be read is an error that says ``named``, and no row is silently left out.

    The input of ``make`` is bad from the start. With ``spoil`` it is good, is read to its middle, and then
    ``spoil`` damages, removes or replaces it. Raises RuleBroken.
    """
    states = None
    if spoil is not None:
        source = make()
        states = [_middle(source, state) for state in source.splits()]
        spoil()
    try:
        source = make()
        rows = sum(len(rows) for state in states or source.splits() for rows, _ in _walk(source, state, READ_ROWS))
    except Exception as error:
        must(named in str(error), "bad-input", f"the error does not say {named!r}: {type(error).__name__}: {error}")
        return
    must(False, "bad-input", f"{rows} rows were read and no error was raised; one that says {named!r} is due")


def _middle(source: Source, state: SplitState) -> SplitState:
    whole = _read_all(source, state, READ_ROWS)
    half, seen = state, 0
    for rows, after in _walk(source, state, 1):
        seen += len(rows)
        half = after
        if 2 * seen >= len(whole):
            break
    return half


def _check_splits(source: Source, other: Source) -> list[SplitState]:
    states, again = list(source.splits()), list(other.splits())
    must(isinstance(source.schema, pa.Schema), "schema", f"schema is {type(source.schema).__name__}, not pa.Schema")
    must(states, "splits", "there are none")
    must(states == again, "splits-stable", f"two calls of splits() give {states} and {again}")
    for state in states:
        must(isinstance(state, SplitState), "splits", f"splits() gave {type(state).__name__}; ps.SplitState is due")
        wrong = misfit(state)
        must(wrong is None, "splits", f"split {str(state.split)!r}: {wrong}")
    names = [state.split for state in states]
    must(len(set(names)) == len(names), "splits-stable", f"two splits have one name: {sorted(names)}")
    for state in states:
        must(state.offset == 0, "splits-stable", f"split {state.split!r} begins at {state.offset}; 0 is due")
    return states


def _check_split(make: MakeSource, source: Source, state: SplitState, more: Callable[[], object] | None) -> int:
    whole = _read_all(source, state, READ_ROWS)
    if more is not None and not source.bounded:
        more()
        grown = _read_all(source, state, READ_ROWS)
        must(grown[: len(whole)] == whole, "same-rows", f"split {state.split!r}: rows that were read have changed")
        whole = grown
    other = make()
    must(_read_all(other, state, ODD_ROWS) == whole, "same-rows", f"split {state.split!r}: read in pieces of 7")
    places = _places(other, state, whole)
    step = max(1, len(places) // POSITIONS_MAX)
    for place in [*places[::step], places[-1]]:
        _check_position(make(), place, whole)
    if source.bounded:
        last = places[-1]
        must(last.finished, "ends", f"split {state.split!r}: all rows are read and its state is not finished")
    return len(whole)


def _places(source: Source, state: SplitState, whole: Rows) -> list[SplitState]:
    """Read row by row, and return every position; two readers of one split do not disturb each other."""
    places, rows = [state], []
    beside = source.open(state)
    for got, after in _walk(source, state, 1):
        rows += got
        places.append(after)
        beside.read(ODD_ROWS)
    beside.committed(Epoch(1), state)
    beside.close()
    must(rows == whole, "same-rows", f"split {state.split!r}: read row by row, beside another reader")
    offsets = [place.offset for place in places]
    must(offsets == sorted(offsets), "positions-grow", f"split {state.split!r}: a position goes back: {offsets}")
    return places


def _check_position(source: Source, place: SplitState, whole: Rows) -> None:
    rest = _read_all(source, place, ODD_ROWS)
    due = whole[place.offset :]
    if rest == due:
        return
    what = f"split {place.split!r} from position {place.offset} on"
    must(len(rest) >= len(due), "restore", f"{what}: {len(rest)} rows, {len(due)} are due: rows are lost")
    must(len(rest) <= len(due), "restore", f"{what}: {len(rest)} rows, {len(due)} are due: rows are repeated")
    at = next(i for i, (a, b) in enumerate(zip(rest, due, strict=True)) if a != b)
    must(False, "restore", f"{what}: row {place.offset + at} is {rest[at]}, before it was {due[at]}")


def _read_all(source: Source, state: SplitState, max_rows: int) -> Rows:
    return [row for rows, _ in _walk(source, state, max_rows) for row in rows]


def _walk(source: Source, state: SplitState, max_rows: int) -> Iterator[tuple[Rows, SplitState]]:
    """Read a split from ``state`` on; give the rows of each read and the state after it. Checks each read."""
    reader = source.open(state)
    with closing(reader):
        at, quiet = state.offset, 0
        while at < ROWS_MAX:
            read = reader.read(max_rows)
            _check_kind(state, read)
            if read is None or not read.batch.num_rows:
                quiet += 1
                now = reader.state()
                if now.finished or (not source.bounded and quiet == QUIET_READS):
                    yield [], now  # the state after the last row may differ from the one that says the end
                    break
                must(quiet < IDLE_READS_MAX, "ends", f"split {state.split!r}: no rows and no end at position {at}")
                continue
            quiet = 0
            _check_read(source, state, (read.offset, at), read.batch, max_rows)
            at += read.batch.num_rows
            yield read.batch.to_pylist(), _state(reader, state, at)
    reader.close()  # a second time: it does no harm


def _check_kind(state: SplitState, read: object) -> None:
    what = f"split {state.split!r}: read() gave"
    must(read is None or isinstance(read, Read), "reads", f"{what} {type(read).__name__}; ps.Read or None is due")
    batch = read.batch if isinstance(read, Read) else None
    is_batch = batch is None or isinstance(batch, pa.RecordBatch)
    must(is_batch, "reads", f"{what} rows as {type(batch).__name__}; pa.RecordBatch is due")


def _check_read(
    source: Source, state: SplitState, places: tuple[int, int], batch: pa.RecordBatch, max_rows: int
) -> None:
    what = f"split {state.split!r}"
    given, due = places
    must(given == due, "positions-grow", f"{what}: read() gave rows from {given} on, {due} was next")
    must(batch.schema.equals(source.schema), "schema", f"{what}: rows of {batch.schema}, declared: {source.schema}")
    must(batch.num_rows <= max_rows, "bounded-reads", f"{what}: {batch.num_rows} rows, {max_rows} were asked for")


def _state(reader: SplitReader, first: SplitState, at: int) -> SplitState:
    now = reader.state()
    wrong = misfit(now)
    must(wrong is None, "positions-grow", f"split {first.split!r}: in its state {wrong}")
    must(now.split == first.split, "positions-grow", f"split {first.split!r}: its state names {now.split!r}")
    must(now.offset == at, "positions-grow", f"split {first.split!r}: its state says {now.offset}, {at} is next")
    return now
