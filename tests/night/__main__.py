"""The night: ``python -m tests.night [STAGE ...] [--hours H] [--report]`` (make night).

It runs every stage in pieces, one piece of each stage in turn, so that a short night has something
of everything. What has ended is in the ledger and is not run again at the same revision. At the end
it prints what was done, every failed piece with the command that repeats it, and what falls short.
The exit code is 1 if a failed piece has not gone well since.

Three things for a machine that is shared: ``--processes 1`` takes one core for the simulation.
``--load-max 4`` begins pieces whose times are of interest, and those in a cluster, only below that
load average. ``--across`` does not repeat what has gone well at another revision. The report then
still says how much was done at which.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from tests.integration.kubernetes.binaries import cluster_file
from tests.night.ledger import Entry, Ledger
from tests.night.recoveries import recoveries_in
from tests.night.report import report
from tests.night.stages import STAGES, Revisions, Stage

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "night"
SOURCES = ("worker", "operator", "spark", ".")
SAID_CHARS_MAX = 2_000
PIECE_S_MIN, PIECE_OF_EXPECTED = 3_600.0, 40.0  # how long a piece may take, on a machine that is shared
LOOK_AT_LOAD_EVERY_S = 10.0
VIRTUAL_HOURS = re.compile(r"([0-9.]+) virtual hours")


def revision() -> str:
    """Return the revision of the tree, with a mark if it has changes."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return described.stdout.strip()


def cluster_revision() -> str:
    """Return the revision of the images in the cluster; empty without a cluster."""
    file = cluster_file()
    return str(json.loads(file.read_text()).get("revision", "unknown")) if file.exists() else ""


def run_piece(stage: Stage, piece: int, ledger: Ledger, of_revision: str, processes: int = 2) -> Entry:
    """Run one piece to its end and write it down."""
    load, begun = os.getloadavg()[0], time.monotonic()
    within_s = max(PIECE_S_MIN, PIECE_OF_EXPECTED * stage.expected_s)
    try:
        done = subprocess.run(
            [sys.executable, *stage.words(piece, FOLDER / "bench", processes)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(SOURCES)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=within_s,
            check=False,
        )
        ok, said = done.returncode == 0, done.stdout
    except subprocess.TimeoutExpired as error:
        ok, said = False, f"{error.output or ''}\nnot within {within_s:.0f} s"
    entry = Entry(
        of_revision,
        stage.name,
        piece,
        ok,
        round(time.monotonic() - begun, 1),
        said[-SAID_CHARS_MAX:],
        time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        round(load, 1),
        sum(float(hours) for hours in VIRTUAL_HOURS.findall(said)),
        recoveries_in(said),
    )
    ledger.add(entry)
    return entry


def open_pieces(
    stages: Sequence[Stage], ledger: Ledger, revisions: Revisions, *, across: bool = False
) -> Iterator[tuple[Stage, int]]:
    """Yield the pieces that are left to run and can run here, one of each stage in turn."""
    for piece in range(max((stage.pieces() for stage in stages), default=0)):
        for stage in stages:
            at = revisions.of(stage)
            if at and piece < stage.pieces() and not ledger.is_done(stage.name, piece, at, across=across):
                yield stage, piece


def next_piece(pieces: Sequence[tuple[Stage, int]], load_max: float) -> tuple[Stage, int] | None:
    """Return the first piece that may begin at the present load, if there is one."""
    is_quiet = os.getloadavg()[0] < load_max
    return next(((stage, piece) for stage, piece in pieces if is_quiet or not stage.timed), None)


def run_pieces(
    pieces: list[tuple[Stage, int]], ledger: Ledger, revisions: Revisions, options: argparse.Namespace
) -> None:
    """Run the pieces, as long as there is time."""
    until = time.monotonic() + options.hours * 3600
    never = threading.Event()
    while pieces and time.monotonic() < until:
        if (chosen := next_piece(pieces, options.load_max)) is None:
            never.wait(LOOK_AT_LOAD_EVERY_S)
            continue
        pieces.remove(chosen)
        entry = run_piece(*chosen, ledger, revisions.of(chosen[0]), options.processes)
        verdict = "ok" if entry.ok else "FAILED"
        print(f"{entry.ended} {verdict:<6} {entry.stage} {entry.piece}: {entry.seconds:.0f} s", flush=True)


def main() -> int:
    """Run the night as the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m tests.night", description=__doc__)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help="all if none is named")
    parser.add_argument("--hours", type=float, default=12.0, help="begin no piece after this time")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--across", action="store_true", help="run nothing that went well at another revision")
    parser.add_argument("--processes", type=int, default=2, help="of a piece of the simulation")
    parser.add_argument("--load-max", type=float, default=float("inf"), help="of the machine, for timed pieces")
    parser.add_argument("--ledger", type=Path, default=FOLDER / "ledger.jsonl")
    options = parser.parse_args()
    known = {stage.name: stage for stage in STAGES}
    unknown = [name for name in options.stages if name not in known]
    if unknown:
        parser.error(f"unknown stage {unknown[0]!r}; there are: {', '.join(known)}")
    stages = [known[name] for name in options.stages] or list(STAGES)
    ledger, revisions = Ledger(options.ledger), Revisions(revision(), cluster_revision())
    pieces = [] if options.report else list(open_pieces(stages, ledger, revisions, across=options.across))
    left = sum(stage.expected_s for stage, _ in pieces) / 3600
    print(f"ledger {options.ledger}; this tree is {revisions.here}")
    print(f"images in the cluster: {revisions.in_cluster or 'there is no cluster; `make cluster-up` makes one'}")
    print(f"{len(pieces)} pieces to run, {left:.1f} h on two quiet cores", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the piece ends, too
    with suppress(KeyboardInterrupt):
        run_pieces(pieces, ledger, revisions, options)
    return 0 if report(stages, ledger, revisions) else 1


if __name__ == "__main__":
    sys.exit(main())
