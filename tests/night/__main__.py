"""The night: ``python -m tests.night [STAGE ...] [--hours H] [--report]`` (make night).

It runs every stage in pieces, one piece of each stage in turn, so that a short night has something
of everything. What has ended is in the ledger and is not run again at the same revision. At the end
it prints what was done, every failed piece with the command that repeats it, and what falls short.
The exit code is 1 if a piece failed.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.night.ledger import Entry, Ledger
from tests.night.real_faults import recoveries_in
from tests.night.stages import STAGES, Stage

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "night"
SOURCES = ("worker", "operator", "spark", ".")
SAID_CHARS_MAX = 2_000
PIECE_S_MAX = 3_600.0


def revision() -> str:
    """Return the revision of the tree, with a mark if it has changes."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return described.stdout.strip()


def run_piece(stage: Stage, piece: int, ledger: Ledger, of_revision: str) -> Entry:
    """Run one piece to its end and write it down."""
    words = [word.replace("{out}", str(FOLDER / "bench")) for word in stage.words(piece)]
    begun = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(SOURCES)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=PIECE_S_MAX,
            check=False,
        )
        ok, said = done.returncode == 0, done.stdout
    except subprocess.TimeoutExpired as error:
        ok, said = False, f"{error.output or ''}\nnot within {PIECE_S_MAX:.0f} s"
    entry = Entry(of_revision, stage.name, piece, ok, round(time.monotonic() - begun, 1), said[-SAID_CHARS_MAX:])
    ledger.add(entry)
    return entry


def open_pieces(stages: Sequence[Stage], ledger: Ledger) -> Iterator[tuple[Stage, int]]:
    """Yield the pieces that have not ended, one of each stage in turn."""
    for piece in range(max(stage.pieces() for stage in stages)):
        for stage in stages:
            if piece < stage.pieces() and not ledger.has(stage.name, piece):
                yield stage, piece


def report(stages: Sequence[Stage], ledger: Ledger) -> bool:
    """Print what was done and what falls short. Return whether every piece that was run went well."""
    print(f"\n{'stage':<30} {'done':>8} of {'goal':>8}  failed  hours  unit")
    for stage in stages:
        entries = ledger.of(stage.name)
        done = min(stage.goal, stage.done_by_piece * len(entries))
        failed = sum(not entry.ok for entry in entries)
        hours = sum(entry.seconds for entry in entries) / 3600
        short = "  <- falls short" if done < stage.goal else ""
        print(f"{stage.name:<30} {done:>8} of {stage.goal:>8}  {failed:>6}  {hours:>5.2f}  {stage.unit}{short}")
    for line in recoveries_in([entry.said for entry in ledger.of("real-processes")]):
        print(line)
    failures = [(stage, entry) for stage in stages for entry in ledger.of(stage.name) if not entry.ok]
    for stage, entry in failures:
        print(f"\nFAILED {stage.name}, repeat: python {' '.join(stage.words(entry.piece))}\n{entry.said}")
    return not failures


def main() -> int:
    """Run the night as the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m tests.night", description=__doc__)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help="all if none is named")
    parser.add_argument("--hours", type=float, default=12.0, help="begin no piece after this time")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--ledger", type=Path, default=FOLDER / "ledger.jsonl")
    options = parser.parse_args()
    known = {stage.name: stage for stage in STAGES}
    unknown = [name for name in options.stages if name not in known]
    if unknown:
        parser.error(f"unknown stage {unknown[0]!r}; there are: {', '.join(known)}")
    stages = [known[name] for name in options.stages] or list(STAGES)
    at = revision()
    ledger = Ledger(options.ledger, at)
    pieces = [] if options.report else list(open_pieces(stages, ledger))
    left = sum(stage.expected_s for stage, _ in pieces) / 3600
    print(f"revision {at}: {len(pieces)} pieces to run, {left:.1f} h on two quiet cores; ledger {options.ledger}")
    until = time.monotonic() + options.hours * 3600
    for stage, piece in pieces:
        if time.monotonic() >= until:
            break
        entry = run_piece(stage, piece, ledger, at)
        print(f"{'ok' if entry.ok else 'FAILED':<6} {stage.name} {piece}: {entry.seconds:.0f} s", flush=True)
    return 0 if report(stages, ledger) else 1


if __name__ == "__main__":
    sys.exit(main())
