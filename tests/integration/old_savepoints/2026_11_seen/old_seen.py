"""A job whose state with types is kept for later revisions: every kind of field that a state may have."""

from typing import Any

import penstock as ps


@ps.record
class Entry:
    """A row of the input."""

    account: str
    amount: int
    limit: ps.Decimal[12, 2] | None  # type: ignore[valid-type]
    at: ps.Time


@ps.record
class Place:
    """A record within the state."""

    x: int
    name: str | None = None


@ps.record
class Report:
    """The state of an account after a row, as a text."""

    account: str
    number: int
    state: str


@ps.state
class Seen:
    """What is known of an account."""

    number: int = 100
    tiny: ps.int8 = 7
    total: float = 0.5
    low: bool = True
    largest: int | None = None
    label: str = "none"
    note: str | None = None
    raw: bytes
    limit: ps.Decimal[12, 2] | None = None  # type: ignore[valid-type]
    size: ps.Enum["SMALL", "LARGE"] = "SMALL"  # noqa: F821
    since: ps.Time | None = None
    pair: tuple[int, str | None] = (0, None)
    place: Place = Place(3, "here")
    last: ps.Ring[ps.int16, 3]  # type: ignore[valid-type]
    sizes: ps.Ring[ps.Enum["SMALL", "LARGE"], 2]  # type: ignore[valid-type]  # noqa: F821
    amounts: ps.List[int] = ps.field(max=4)
    by_rest: ps.Map[str, int]
    places: ps.Map[int, Place]
    rests: ps.Set[int]
    times: ps.Timers


def see(r: Entry, s: Seen, out: ps.Out[Report]) -> None:
    """Write every field, and report the state."""
    rest = r.amount % 5
    size: Any = "LARGE" if r.amount > 50 else "SMALL"
    s.number += 1
    s.tiny = r.amount % 100
    s.total += r.amount / 4
    s.low = not s.low
    s.largest = r.amount if s.largest is None else max(s.largest, r.amount)
    if rest == 0:
        s.label = f"{r.account} {r.amount}"
    s.note = None if rest == 1 else f"note {rest}"
    s.raw = bytes([rest])
    s.limit = r.limit if r.limit is not None else s.limit
    s.size = size
    s.since = s.since or r.at
    s.pair = (rest, None if rest == 2 else str(rest))
    s.place = Place(r.amount, s.place.name)
    s.last.append(r.amount % 1000)
    s.sizes.append(size)
    if len(s.amounts) == 4:
        s.amounts.popleft()
    s.amounts.append(r.amount)
    s.by_rest[str(rest)] = s.by_rest.get(str(rest), 0) + 1
    s.places[rest] = Place(r.amount, None if rest == 3 else "there")
    s.rests.add(rest)
    s.times.add(rest)
    out.emit(Report(r.account, s.number, text(s)))


def text(s: Seen) -> str:
    """Return all fields as a text."""
    single: list[Any] = [
        s.number,
        s.tiny,
        s.total,
        s.low,
        s.largest,
        str(s.label),
        s.note,
        s.raw,
        str(s.limit),
        str(s.size),
    ]
    single += [s.since, s.pair, (s.place.x, s.place.name)]
    several = [list(s.last), [str(each) for each in s.sizes], list(s.amounts), list(s.by_rest.items())]
    several += [[(key, each.x, each.name) for key, each in s.places.items()], list(s.rests), list(s.times)]
    return f"{single} {several}"


def job(params: dict[str, str]) -> ps.Job:
    """Read rows of accounts, and write reports to a folder."""
    job = ps.Job()
    columns = {"account": "string", "amount": "int64", "limit": "decimal128(12, 2)", "at": "timestamp[us]"}
    rows = job.source("rows", ps.parquet(params["input"], rate=int(params["rate"])), columns=columns)
    reports = rows.key_by("account").process("see", see)
    reports.sink("reports", ps.parquet(f"{params['output']}/reports"))
    return job
