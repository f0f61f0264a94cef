"""How often the kernel has ended a process of this one's control group because memory ran out.

A process that is ended so says nothing, and its container goes on where it was not the first
process of it: the kernel's own count is the only witness. The files are those of both versions of
control groups; a container sees its own group either at the root of the mount or by its path.
"""

import os
from dataclasses import dataclass
from pathlib import Path

MOUNT = "/sys/fs/cgroup"
GROUPS = "/proc/self/cgroup"
NO_LIMIT = 1 << 60  # version 1 spells no limit as a number near 2^63
BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class MemoryKills:
    """``root`` is where the machine's files are: ``/``."""

    root: str = "/"

    def count(self) -> int:
        """Return how many processes were ended so far; 0 where the system does not count them."""
        for folder in self._folders():
            for name in ("memory.events", "memory.oom_control"):
                found = _number_after(_text(folder / name), "oom_kill")
                if found is not None:
                    return found
        return 0

    def limit(self) -> int | None:
        """Return the bytes of memory that the group may have; None: no limit, or not known."""
        for folder in self._folders():
            for name in ("memory.max", "memory.limit_in_bytes"):
                text = _text(folder / name).strip()
                if text.isdecimal() and int(text) < NO_LIMIT:
                    return int(text)
        return None

    def _folders(self) -> list[Path]:
        mount = Path(self.root + MOUNT)
        groups = _text(Path(self.root + GROUPS)).splitlines()
        found: list[Path] = []
        for line in groups:
            number, controllers, path = [*line.split(":", 2), "", ""][:3]
            if number == "0" and not controllers:
                found.append(mount / path.lstrip("/"))
            elif "memory" in controllers.split(","):
                found.append(mount / "memory" / path.lstrip("/"))
        # In a container the path may be the node's, which is not there.
        return [*found, mount, mount / "memory"]


def _text(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            return os.read(file.fileno(), BYTES_MAX).decode(errors="replace")
    except OSError:
        return ""


def _number_after(text: str, name: str) -> int | None:
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == name and words[1].isdecimal():
            return int(words[1])
    return None


@dataclass(slots=True)
class MemoryWitness:
    """Says of one process whether memory ended it; made before the process is."""

    kills: MemoryKills
    before: int = 0

    def __post_init__(self) -> None:
        """Take the count before."""
        self.before = self.kills.count()

    def says(self, status: int) -> str:
        """Return of a process that ended with ``status`` that memory ended it; empty: it did not.

        ``status`` is as of ``subprocess``. The kernel counts before the process ends. A neighbour
        that memory ended meanwhile is taken for it only if this one was ended by SIGKILL too.
        """
        if status != -9 or self.kills.count() <= self.before:
            return ""
        limit = self.kills.limit()
        return "limit not known" if limit is None else f"limit {limit / 2**20:.0f} MiB"
