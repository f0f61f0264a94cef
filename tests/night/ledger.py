"""The ledger: one line for each piece that ended, so that an interrupted night goes on."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Entry:
    """One piece that ended. ``said`` is the end of what it printed."""

    revision: str
    stage: str
    piece: int
    ok: bool
    seconds: float
    said: str


class Ledger:
    """A file of entries. Lines are only added."""

    def __init__(self, path: Path, revision: str) -> None:
        """Use the entries of one revision; those of others stay in the file."""
        self._path, self._revision = path, revision
        path.parent.mkdir(parents=True, exist_ok=True)
        self.entries = [entry for entry in _read(path) if entry.revision == revision]

    def has(self, stage: str, piece: int) -> bool:
        """Return whether a piece has ended before."""
        return any(entry.stage == stage and entry.piece == piece for entry in self.entries)

    def add(self, entry: Entry) -> None:
        """Write an entry."""
        self.entries.append(entry)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(entry)) + "\n")

    def of(self, stage: str) -> list[Entry]:
        """Return the entries of a stage, in the order of their ends."""
        return [entry for entry in self.entries if entry.stage == stage]


def _read(path: Path) -> Iterator[Entry]:
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.endswith("}"):  # an interrupted write leaves a part of a line
                yield Entry(**json.loads(line))
