"""Where the workers of an ingest source listen: one small file each, in a folder senders can read.

A file of a worker that is gone leads to a refused dial, never to a wrong answer.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

SUFFIX = ".worker.json"


@dataclass(frozen=True, slots=True)
class Announcement:
    """One worker: its address, the number of partitions of the job, those it owns now."""

    address: str
    partitions: int
    owned: tuple[int, ...]


def announce(folder: Path, life: str, announcement: Announcement) -> None:
    """Write or renew the file of one life of a worker; whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{life}"
    temporary.write_text(json.dumps(asdict(announcement)))
    temporary.replace(folder / f"{life}{SUFFIX}")


def finished_note(folder: Path, partition: int) -> Path:
    """Return the file that says that a partition is committed to its end; it holds the end."""
    return folder / f"partition-{partition:05d}.finished"


def read_announcements(folder: Path) -> list[Announcement]:
    """Return what workers have announced, the newest first."""
    found: list[tuple[float, Announcement]] = []
    for file in folder.glob(f"*{SUFFIX}"):
        try:
            plain = json.loads(file.read_text())
            owned = tuple(plain["owned"])
            known = Announcement(plain["address"], plain["partitions"], owned)
            found.append((file.stat().st_mtime, known))
        except (OSError, ValueError, KeyError):
            continue  # it is being replaced: the next look finds it
    return [a for _, a in sorted(found, key=lambda pair: -pair[0])]


def read_owners(folder: Path) -> dict[int, str]:
    """Return who says that it owns a partition; of two, who said it last."""
    owners: dict[int, str] = {}
    for known in reversed(read_announcements(folder)):
        owners.update(dict.fromkeys(known.owned, known.address))
    return owners
