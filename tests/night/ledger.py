"""The ledger: one line for each piece that ended, so that an interrupted night goes on.

A line says on which revision its piece ran. What has ended at an older revision is never counted for
a newer one. :meth:`Ledger.is_done` says which pieces are left to run.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Entry:
    """One piece that ended. ``said`` is the end of what it printed.

    ``revision`` is that of the code under test, ``ended`` the time in UTC, ``load`` the load average
    of the machine when the piece began. ``recoveries`` has seconds by kind of fault, ``hours`` are
    virtual. Older lines lack some of these fields.
    """

    revision: str
    stage: str
    piece: int
    ok: bool
    seconds: float
    said: str
    ended: str = ""
    load: float = 0.0
    hours: float = 0.0
    recoveries: dict[str, list[float]] = field(default_factory=dict)


class Ledger:
    """A file of entries. Lines are only added."""

    def __init__(self, path: Path) -> None:
        """Read what there is."""
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.entries = list(_read(path))

    def is_done(self, stage: str, piece: int, revision: str, *, across: bool = False) -> bool:
        """Return whether a piece need not run.

        It need not if it has ended at ``revision``, well or not. With ``across``, an end at any
        revision is enough, unless it failed: then it has to run again at ``revision``.
        """
        return any(entry.revision == revision or (across and entry.ok) for entry in self.of(stage, piece=piece))

    def add(self, entry: Entry) -> None:
        """Write an entry."""
        self.entries.append(entry)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(entry)) + "\n")

    def of(self, stage: str, *, revision: str = "", piece: int | None = None) -> list[Entry]:
        """Return the entries of a stage in the order of their ends. A revision or a piece selects some of them."""
        return [
            entry
            for entry in self.entries
            if entry.stage == stage and revision in {"", entry.revision} and piece in {None, entry.piece}
        ]

    def revisions(self) -> list[str]:
        """Return all revisions, in the order in which they came."""
        return list(dict.fromkeys(entry.revision for entry in self.entries))


def _read(path: Path) -> Iterator[Entry]:
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.endswith("}"):  # an interrupted write leaves a part of a line
                yield Entry(**json.loads(line))
