"""What is hit: an occurrence of a place, and what happens there instead of the effect, before or after it."""

import errno
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Action(StrEnum):
    """What happens at an effect."""

    KILL_BEFORE = "kill-before"  # SIGKILL, and the effect is not done
    KILL_AFTER = "kill-after"  # the effect is done, then SIGKILL
    ERROR = "error"  # the effect fails and is not done
    LOST = "lost"  # the effect is done, and the caller is told that it failed
    PAUSE = "pause"  # the process stands still for longer than the lease, then does the effect


ERRORS = {
    "open": errno.EIO,
    "write": errno.ENOSPC,
    "fsync": errno.EIO,
    "link": errno.ESTALE,
    "rename": errno.ESTALE,
    "unlink": errno.ESTALE,
    "mkdir": errno.ENOSPC,
    "rmdir": errno.EIO,
    "send": errno.EPIPE,
}
DURABLE = ("link", "rename", "commit", "fsync", "write", "unlink", "mkdir", "reply", "call", "open")
# Effects that no result of a job depends on: what a person sees, and what the kernel tells.
IDLE = (
    "memory_kills",
    "place.folder_of_version",
    "record.keep_record",
    "logs.Log",
    "exporter.<module>",
    "forks.ForkServer.close",
    "published.mark_of",
    "final_report.Printed",
)


@dataclass(frozen=True, slots=True)
class Order:
    """Hit occurrence ``nth`` of ``place``. The place may be a pattern as of :mod:`fnmatch`."""

    place: str
    nth: int
    action: Action

    @property
    def errno(self) -> int:
        """The number of the error that the action tells."""
        return ERRORS.get(self.place.partition(" ")[0], errno.EIO)

    def as_plain(self) -> dict[str, object]:
        """Return the content of the file that the hook reads."""
        return {"place": self.place, "nth": self.nth, "action": self.action, "errno": self.errno}


def occurrences(count: int) -> list[int]:
    """Return the first, the middle and the last of ``count`` occurrences."""
    return sorted({1, (count + 1) // 2, count})


def fits(place: str, action: Action) -> bool:
    """Return whether the action means something there. A message on a local socket is never lost."""
    return not (place.startswith("send ") and action is Action.LOST)


def all_orders(counts: Mapping[str, int], *, full: bool) -> list[Order]:
    """List the orders for the places of a run that counted.

    With ``full``, every action at the first, middle and last occurrence of every place. Without it,
    one action at each of them: they take turns, so that a place meets three, and neighbours others.
    """
    found: list[tuple[int, Order]] = []
    places = sorted((p for p in counts if not any(idle in p for idle in IDLE)), key=_rank)
    for index, place in enumerate(places):
        actions = [a for a in Action if fits(place, a)]
        turns = _turns(occurrences(counts[place]))
        for turn, nth in enumerate(turns):
            chosen = actions if full else [actions[(index + turn) % len(actions)]]
            found += [(turn, Order(place, nth, action)) for action in chosen]
    found.sort(key=lambda pair: pair[0])  # a run that is ended early has met every place once
    return list(dict.fromkeys(order for _, order in found))


def _rank(place: str) -> tuple[int, str]:
    """Sort what is durable first: a run that is ended early has met it."""
    effect = place.partition(" ")[0]
    return DURABLE.index(effect) if effect in DURABLE else len(DURABLE), place


def _turns(numbers: Iterable[int]) -> list[int]:
    """Return three occurrences: of a place that occurs once or twice, one of them again."""
    found = list(numbers)
    return (found * 3)[:3] if len(found) < 3 else found
