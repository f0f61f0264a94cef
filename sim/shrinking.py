"""Shrinks a run that broke a promise: which of its faults and requests are needed?

The *parts* of a run are its injected faults, the events of its plan, and the faults that are aimed at
a state. The workload and the order of events come from streams of their own, so a part can be left
out without changing what is drawn for the others. A search in the manner of Zeller's delta debugging
leaves out ever smaller groups of parts, as long as the same promise is broken.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunParts:
    """The parts of a run that happen, by number: injected faults, plan events, aimed faults."""

    faults: frozenset[int]
    plan: frozenset[int]
    moments: frozenset[int]

    def __str__(self) -> str:
        """Return a text that :func:`parse_parts` reads."""
        named = [("f", self.faults), ("p", self.plan), ("m", self.moments)]
        return ",".join(f"{kind}{number}" for kind, numbers in named for number in sorted(numbers)) or "none"


def parse_parts(text: str) -> RunParts:
    """Read the text of :class:`RunParts`, such as ``f0,f12,p3``, or ``none``. Raises ValueError."""
    found: dict[str, set[int]] = {"f": set(), "p": set(), "m": set()}
    for word in text.split(",") if text != "none" else ():
        if word[:1] not in found:
            raise ValueError(f"{word!r} is no part: write f, p or m and a number")
        found[word[0]].add(int(word[1:]))
    return RunParts(*(frozenset(found[kind]) for kind in "fpm"))


def fewest(parts: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Return some of ``parts`` that still fail, such that it needs each one of them.

    All of ``parts`` must fail. RunParts keep their order.
    """
    size = max(1, len(parts) // 2)
    while parts:
        smaller = _without_one_group(parts, size, fails)
        if smaller is not None:
            parts = smaller
        elif size == 1:
            break
        else:
            size = max(1, size // 2)
        size = min(size, max(1, len(parts) // 2))
    return parts


def _without_one_group(parts: Sequence[T], size: int, fails: Callable[[Sequence[T]], bool]) -> Sequence[T] | None:
    for start in range(0, len(parts), size):
        rest = [*parts[:start], *parts[start + size :]]
        if fails(rest):
            return rest
    return None


def shrink(whole: RunParts, fails: Callable[[RunParts], bool]) -> RunParts:
    """Return the fewest parts of a run with which it still fails."""
    words = [f"f{n}" for n in sorted(whole.faults)]
    words += [f"p{n}" for n in sorted(whole.plan)] + [f"m{n}" for n in sorted(whole.moments)]

    def fail(some: Sequence[str]) -> bool:
        return fails(parse_parts(",".join(some) or "none"))

    return parse_parts(",".join(fewest(words, fail)) or "none")
