"""Hits every place in real processes: ``python -m tests.failpoints`` (``make failpoints``).

    python -m tests.failpoints                          one action at the first, middle and last occurrence
    python -m tests.failpoints --full                   every action at each of them
    python -m tests.failpoints --place P --nth 2 --action kill-after      one run again
    python -m tests.failpoints --list                   count only, and print the places

The first run counts. Its places and every outcome are kept in a ledger, so a run that was ended goes
on where it was. What falls short is printed at the end, with the command that repeats it.
"""

import argparse
import json
import shlex
import sys
import tempfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.failpoints.orders import Action, Order, all_orders
from tests.failpoints.runs import WITHIN_S, FailpointRun, Outcome
from tests.integration.local_job import Folders, make_lines

FILES, LINES = 2, 1_500  # ten seconds: time for a savepoint and a rescale
LEDGER = Path(".failpoints")


class Campaign:
    """All orders of one ledger."""

    def __init__(self, ledger: Path, within_s: float) -> None:
        self._ledger = ledger
        self._within_s = within_s
        self._lock = threading.Lock()
        ledger.mkdir(exist_ok=True)
        if not (ledger / "input").is_dir():
            make_lines(ledger, files=FILES, lines=LINES)

    def count(self) -> dict[str, int]:
        """Return how often each place occurs in a run without a fault."""
        file = self._ledger / "counts.json"
        if not file.exists():
            outcome = self.run(None)
            if outcome.violations:
                raise SystemExit(f"the run that counts failed: {outcome.violations}")
            file.write_text(json.dumps(outcome.counts, indent=1, sort_keys=True))
        counts: dict[str, int] = json.loads(file.read_text())
        return counts

    def run(self, order: Order | None) -> Outcome:
        """Run once, in folders that are removed unless something falls short."""
        root = Path(tempfile.mkdtemp(prefix="fp-"))
        folders = Folders(self._ledger.absolute() / "input", root / "output", root / "state")
        outcome = FailpointRun(root, folders, order, within_s=self._within_s).run()
        if outcome.violations:
            print(f"evidence: {root}", flush=True)
        else:
            _remove(root)
        return outcome

    def hit(self, order: Order) -> Outcome:
        """Run with an order. When its occurrence did not come, take the last one of that run."""
        outcome = self.run(order)
        seen = outcome.counts.get(order.place, 0)
        if not outcome.hit and 0 < seen < order.nth and not outcome.violations:
            outcome = self.run(Order(order.place, max(1, seen - 1), order.action))
        self._note(order, outcome)
        return outcome

    def done(self) -> dict[Order, dict[str, object]]:
        """Return what the ledger has."""
        file = self._ledger / "outcomes.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        found = [json.loads(line) for line in lines]
        return {Order(f["asked"]["place"], f["asked"]["nth"], Action(f["asked"]["action"])): f for f in found}

    def _note(self, order: Order, outcome: Outcome) -> None:
        line = json.dumps({"asked": order.as_plain(), **outcome.as_plain()})
        with self._lock, (self._ledger / "outcomes.jsonl").open("a") as file:
            file.write(line + "\n")


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    folder.rmdir()


def command(order: Order) -> str:
    """Spell the command that repeats an order."""
    return f"python -m tests.failpoints --place {shlex.quote(order.place)} --nth {order.nth} --action {order.action}"


def report(campaign: Campaign, orders: list[Order]) -> int:
    """Print counts and what falls short. Returns the exit status."""
    done = campaign.done()
    outcomes = [(order, done[order]) for order in orders if order in done]
    met = [(order, found) for order, found in outcomes if found["hit"]]
    bad = [(order, found) for order, found in outcomes if found["violations"]]
    places = {order.place for order, _ in met}
    print(f"places hit: {len(places)}; orders: {len(outcomes)} of {len(orders)}; carried out: {len(met)}")
    print("by action:", dict(Counter(str(order.action) for order, _ in met)))
    for order, found in outcomes:
        if not found["hit"]:
            print(f"did not come: {command(order)}")
    for order, found in bad:
        print(f"FALLS SHORT: {found['violations']}\n    {command(order)}")
    return 1 if bad else 0


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.failpoints", description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="every action at each occurrence")
    parser.add_argument("--list", action="store_true", help="print the places and how often they occur")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--ledger", type=Path, default=LEDGER, help="folder of counts and outcomes")
    parser.add_argument("--within", type=float, default=WITHIN_S, help="seconds that one start may take")
    parser.add_argument("--place", help="one place, or a pattern")
    parser.add_argument("--nth", type=int, default=1)
    parser.add_argument("--action", type=Action, choices=list(Action), default=Action.KILL_BEFORE)
    given = parser.parse_args()
    campaign = Campaign(given.ledger, given.within)
    if given.place:
        outcome = campaign.run(Order(given.place, given.nth, given.action))
        print(json.dumps(outcome.as_plain(), indent=1))
        return 1 if outcome.violations or not outcome.hit else 0
    counts = campaign.count()
    if given.list:
        for place, count in sorted(counts.items()):
            print(f"{count:6} {place}")
        return 0
    orders = all_orders(counts, full=given.full)
    done = campaign.done()
    with ThreadPoolExecutor(given.jobs) as pool:
        for outcome in pool.map(campaign.hit, [order for order in orders if order not in done]):
            said = "; ".join(outcome.violations) or ("ok" if outcome.hit else "did not come")
            print(f"{outcome.seconds:6.1f} s  {outcome.order}  {said}", flush=True)
    return report(campaign, orders)


if __name__ == "__main__":
    sys.exit(main())
