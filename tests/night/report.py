"""What a ledger shows: what was done at each revision, every failure, and what falls short."""

from collections.abc import Iterator, Sequence

from tests.night.ledger import Entry, Ledger
from tests.night.recoveries import added_up, in_words
from tests.night.stages import Revisions, Stage


def report(stages: Sequence[Stage], ledger: Ledger, revisions: Revisions) -> bool:
    """Print it. Return whether no failure is left: each was followed by a run of its piece that went well.

    The goals are compared with what was done at the revision under test. What was done at all
    revisions stands beside it: it was other code.
    """
    width = max(len(stage.name) for stage in stages)
    print(f"\n{'':<{width}} {'at this revision':>21} {'at all':>9}")
    print(f"{'stage':<{width}} {'done':>9} of {'goal':>8} {'done':>9}  failed  hours  unit")
    for stage in stages:
        at = revisions.of(stage)
        here = ledger.of(stage.name, revision=at) if at else []
        print(f"{stage.name:<{width}} {_counts(stage, here, ledger.of(stage.name))}")
    known = [f"{each} ({_pieces(ledger, each)} pieces)" for each in ledger.revisions()]
    print("\nrevisions:", ", ".join(known) or "none")
    print(f"virtual hours: {sum(entry.hours for entry in ledger.entries):.1f}")
    for line in in_words(added_up(entry.recoveries for entry in ledger.entries)):
        print(line)
    left = 0
    for stage, entry in _failures(stages, ledger):
        mended = any(later.ok for later in _after(ledger, entry))
        left += not mended
        state = "failed once, and went well later" if mended else "FAILED"
        print(f"\n{state}: {stage.name} at {entry.revision}, repeat: python {stage.shown(entry.piece)}\n{entry.said}")
    return not left


def _counts(stage: Stage, here: Sequence[Entry], everywhere: Sequence[Entry]) -> str:
    done, in_all = _done(stage, here), _done(stage, everywhere)
    failed = sum(not entry.ok for entry in everywhere)
    hours = sum(entry.seconds for entry in everywhere) / 3600
    short = "  <- falls short" if done < stage.goal else ""
    return f"{done:>9} of {stage.goal:>8} {in_all:>9}  {failed:>6}  {hours:>5.2f}  {stage.unit}{short}"


def _done(stage: Stage, entries: Sequence[Entry]) -> int:
    """Return how much was done. A piece that ran at two revisions counts twice, and one that failed as well."""
    return stage.done_by_piece * len({(entry.revision, entry.piece) for entry in entries})


def _pieces(ledger: Ledger, revision: str) -> int:
    return sum(entry.revision == revision for entry in ledger.entries)


def _failures(stages: Sequence[Stage], ledger: Ledger) -> Iterator[tuple[Stage, Entry]]:
    for stage in stages:
        yield from ((stage, entry) for entry in ledger.of(stage.name) if not entry.ok)


def _after(ledger: Ledger, entry: Entry) -> list[Entry]:
    same = ledger.of(entry.stage, piece=entry.piece)
    return same[same.index(entry) + 1 :]
