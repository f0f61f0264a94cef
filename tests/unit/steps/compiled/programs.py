"""Functions as users write them, and the records and states that they take."""

import math
from typing import Any

import numpy as np

import penstock as ps

STATES = tuple(a + t + e for a in "LMH" for t in "NH" for e in "LNS")
CHANCES = np.linspace(0.001, 0.05, 18 * 18).reshape(18, 18)


@ps.record
class Txn:
    entity: str
    txn: str
    state: ps.Enum[STATES]  # type: ignore[valid-type]


@ps.record
class Alert:
    entity: str
    txn: str
    score: float


@ps.state
class Seen:
    last: ps.Ring[ps.int8, 5]  # type: ignore[valid-type]


def miss(ring: Any, first: int) -> Any:
    return 1.0 - CHANCES[ring[first - 1], ring[first]]


def fraud(r: Any, s: Any, out: Any) -> None:
    last = s.last
    last.append(r.state)
    if len(last) < 5:
        return
    total = 0.0
    for i in range(1, 5):
        total += miss(last, i)
    if total / 4 > 0.97:
        out.emit(Alert(r.entity, r.txn, total / 4))


@ps.record
class Reading:
    mote: int
    value: float | None = None


@ps.record
class Spike:
    mote: int
    value: float
    mean: float


@ps.state
class Window:
    last: ps.Ring[float, 1000]  # type: ignore[valid-type]
    sum: float = 0.0


def spike(r: Any, s: Any, out: Any) -> None:
    if r.value is None:
        return
    s.sum += r.value - s.last.append(r.value)
    mean = s.sum / len(s.last)
    if abs(r.value - mean) > 0.25 * mean:
        out.emit(Spike(r.mote, r.value, mean))


@ps.record
class Word:
    word: str
    weight: int = 1


@ps.record
class Count:
    word: str
    n: int
    root: float | None = None


@ps.state
class Counter:
    n: int = 0
    most: int = -1
    small: ps.int8 = 0


def count(r: Any, s: Any, out: Any) -> None:
    s.n += 1
    out.emit(Count(r.word, s.n))


def fragile(r: Any, s: Any, out: Any) -> None:
    """Writes, emits twice, and fails for some records after that."""
    s.n += r.weight
    out.emit(Count(r.word, s.n, None))
    s.small = s.n % 1000
    s.most = max(s.most, s.n * r.weight)
    if r.word[0:2] == "no" and not r.word.endswith("t"):
        raise ValueError(r.word)
    out.emit(Count(word=r.word, n=s.most, root=math.sqrt(s.n)))


def twice(r: Any, s: Any, out: Any) -> None:
    s.n += 1
    out.emit(Count(r.word, s.n))
    out.emit(Count(r.word, -s.n))


@ps.state
class Last:
    value: float | None = None


def before(r: Any, s: Any, out: Any) -> None:
    """Gives the value before this one, which may be None."""
    if s.value is not None:
        out.emit(Spike(r.mote, s.value, 0.0))
    s.value = None
    if r.value is not None:
        s.value = r.value


def searching(r: Any, s: Any, out: Any) -> None:
    """Asks for the beginning of a text a million times."""
    i = 0
    while i < 1_000_000:
        i += 1
        if r.word.startswith("ab"):
            s.n += 1
            i += r.weight
    out.emit(Count(r.word, s.n))


def matching(r: Any, s: Any, out: Any) -> None:
    import re

    if re.match("a", r.word):
        s.n += 1


def late_name(r: Any, s: Any, out: Any) -> None:
    if r.weight > 3:
        last = s.last
    last.append(r.weight)


ANY_COUNT: Any = Count


def taken_apart(r: Any, s: Any, out: Any) -> None:
    word, n, _ = ANY_COUNT(r.word, r.weight)
    out.emit(Count(word, n))
