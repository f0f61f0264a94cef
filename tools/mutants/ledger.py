"""Verdicts: what became of each fault when it ran last. Those of the table are in ``verdicts.csv``, in git.

A line has two digests, because a verdict gets old in two ways. While ``entry`` is that of the table, the
fault has run as it is written there. While ``key`` fits, too, neither the source nor the tests have changed
since, so the fault need not run again.
"""

import csv
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path

from tools.mutants.table import REPOSITORY, Fault

VERDICTS = Path(__file__).parent / "verdicts.csv"
DIGITS = 12  # of a digest; they tell versions of one fault apart


class Outcome(StrEnum):
    """How the tests of a fault ended. A test that hangs notices, but a busy machine makes tests hang, too."""

    NOTICED = "noticed"
    HANGS = "hangs"
    SURVIVED = "survived"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one fault. ``by`` names the test that noticed it or was hanging; empty when none did."""

    id: str
    entry: str
    key: str
    outcome: Outcome
    by: str
    seconds: int
    day: str


class Ledger:
    """The newest verdict of each fault, in one file of a line each, by name. It is written after every fault."""

    def __init__(self, path: Path) -> None:
        """Read what is there."""
        self._path = path
        self._verdicts: dict[str, Verdict] = {}
        if path.exists():
            with path.open(encoding="utf-8", newline="") as lines:
                self._verdicts = {line["id"]: _verdict(line) for line in csv.DictReader(lines)}

    def of(self, fault: Fault) -> Verdict | None:
        """Return the verdict of the fault as its entry is today, on whatever source and tests it ran."""
        found = self._verdicts.get(fault.id)
        return found if found is not None and found.entry == entry_of(fault) else None

    def known(self, fault: Fault) -> Verdict | None:
        """Return the verdict of the fault on the source and the tests of today."""
        found = self.of(fault)
        return found if found is not None and found.key == key_of(fault) else None

    def add(self, verdict: Verdict) -> None:
        """Keep a verdict in the place of the one before."""
        self._verdicts[verdict.id] = verdict
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_suffix(".new")
        with temporary.open("w", encoding="utf-8", newline="") as lines:
            table = csv.DictWriter(lines, [field.name for field in fields(Verdict)], lineterminator="\n")
            table.writeheader()
            table.writerows(asdict(self._verdicts[name]) for name in sorted(self._verdicts))
        temporary.replace(self._path)


def _verdict(line: dict[str, str]) -> Verdict:
    rest = {name: line[name] for name in ("id", "entry", "key", "by", "day")}
    return Verdict(**rest, outcome=Outcome(line["outcome"]), seconds=int(line["seconds"]))


def entry_of(fault: Fault) -> str:
    """Return the digest of what the table says of a fault: its change, and the names of its tests."""
    return _digest([fault.old.encode(), fault.new.encode(), *(test.encode() for test in fault.tests)])


def key_of(fault: Fault) -> str:
    """Return the digest of the faulty source, and of the tests by name and content."""
    source = fault.applied((REPOSITORY / fault.file).read_text(encoding="utf-8")).encode()
    paths = (REPOSITORY / test.partition("::")[0] for test in fault.tests)
    files = (file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path]))
    return _digest([source, *(part for file in files for part in (file.name.encode(), file.read_bytes()))])


def _digest(parts: Iterable[bytes]) -> str:
    seen = hashlib.sha256()
    for part in parts:
        seen.update(len(part).to_bytes(8) + part)
    return seen.hexdigest()[:DIGITS]


def report(faults: Sequence[Fault], ledger: Ledger) -> list[str]:
    """Return lines for people: how many faults have run, on which source, and each that is not noticed for sure."""
    ran = [(fault, verdict) for fault in faults if (verdict := ledger.of(fault)) is not None]
    counts = _counts([verdict for _, verdict in ran])
    lines = [f"mutants: {len(ran)} of {len(faults)} faults have a verdict: {counts}"]
    changed = sum(ledger.known(fault) is None for fault, _ in ran)
    lines.append(f"  {len(ran) - changed} of them on today's source and tests, {changed} before a change of either")
    lines += [f"  no verdict: {fault.id}" for fault in faults if ledger.of(fault) is None]
    for fault, verdict in ran:
        if verdict.outcome is Outcome.HANGS:
            lines.append(f"  hangs: {fault.id}: {verdict.by}")
        elif verdict.outcome is Outcome.SURVIVED:
            lines.append(f"  {survivor(fault)}")
        elif fault.equivalent:
            lines.append(f"  {fault.id} ({fault.file}): a test notices it, so it is not equivalent: {verdict.by}")
    return lines


def survivor(fault: Fault) -> str:
    """Say why a fault may survive, or what it does to a user."""
    why = f"equivalent: {fault.equivalent}" if fault.equivalent else f"NOT NOTICED: {fault.harm}"
    return f"{fault.id} ({fault.file}): {why}"


def _counts(verdicts: Sequence[Verdict]) -> str:
    count = {outcome: sum(verdict.outcome is outcome for verdict in verdicts) for outcome in Outcome}
    alive = count[Outcome.SURVIVED]
    share = alive / max(len(verdicts), 1)
    return f"{count[Outcome.NOTICED]} noticed, {count[Outcome.HANGS]} hang, {alive} survive ({share:.1%})"
