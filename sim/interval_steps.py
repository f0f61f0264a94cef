"""The interval join of the simulation: rows of two sources, in event time.

A left and a right record are a pair if ``LOWER_US <= right time - left time <= UPPER_US``. A record arrives when the
watermark of both inputs has passed it, and pairs with what came before it in event time. It is emitted alone when no
partner can come any more. The state of a key has one entry for each record: whether it has arrived, and whether
it has had a partner.
"""

from penstock.contract.ids import SplitId
from sim.workload import SimRecord, State

LOWER_US, UPPER_US, LATENESS_US = -40, 80, 20
LEFT, RIGHT = "left", "right"
SIDES = (LEFT, RIGHT)
# How long after its time a record may still meet a partner, by its side.
WAITS = {LEFT: UPPER_US, RIGHT: -LOWER_US}
Row = tuple[str, tuple[object, ...]]
StateKey = tuple[int, ...]


def side_of(split: SplitId) -> str:
    """Return the side whose source reads a split."""
    return SIDES[int(split[1:]) % 2]


def entry(record: SimRecord) -> StateKey:
    """Return the state key of a record: the key of the row, then its time, side, split and offset."""
    split = int(record.split[1:])
    return (record.key, record.ts, split % 2, split, record.offset)


def is_late(record: SimRecord) -> bool:
    """Return whether a record is late by its own stamp."""
    return record.ts + LATENESS_US < record.bound


def passed(time: int, watermark: int | None) -> bool:
    """Return whether events of a time have happened under a watermark."""
    return watermark is not None and time + LATENESS_US < watermark


def gone_at(side: int, ts: int) -> int:
    """Return the time at which a record of a side has no partner any more."""
    return ts + WAITS[SIDES[side]]


def near(one: StateKey, other: StateKey) -> bool:
    """Return whether two entries of one key are a pair."""
    left, right = (one, other) if one[2] < other[2] else (other, one)
    return left[2] != right[2] and LOWER_US <= right[1] - left[1] <= UPPER_US


def pair(one: StateKey, other: StateKey) -> Row:
    """Return the row of output of two entries."""
    left, right = (one, other) if one[2] == 0 else (other, one)
    return "out", (left[0], f"s{left[3]}", left[4], f"s{right[3]}", right[4])


def alone(one: StateKey) -> Row:
    """Return the row of output of an entry without a partner."""
    own = (f"s{one[3]}", one[4])
    return "out", (one[0], *own, "", -1) if one[2] == 0 else (one[0], "", -1, *own)


def advanced(values: State, watermark: int) -> tuple[State, list[StateKey], list[Row]]:
    """Return the entries that change, those that leave, and the rows of output when time has reached a watermark."""
    changed: State = {}
    rows: list[Row] = []
    arriving = sorted((k for k, v in values.items() if not v[0] and passed(k[1], watermark)), key=lambda k: k[1:])
    for one in arriving:
        earlier = [k for k, v in {**values, **changed}.items() if k[0] == one[0] and v[0] and near(k, one)]
        rows += [pair(one, other) for other in earlier]
        changed[one] = (1, int(bool(earlier)))
        changed.update((other, (1, 1)) for other in earlier)
    now = {**values, **changed}
    leaving = sorted(k for k, v in now.items() if v[0] and passed(gone_at(k[2], k[1]), watermark))
    rows += [alone(k) for k in leaving if not now[k][1]]
    return {k: v for k, v in changed.items() if k not in set(leaving)}, leaving, rows
