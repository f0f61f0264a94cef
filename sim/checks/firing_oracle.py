"""The oracle of the jobs with timers, sliding windows and sessions.

What they emit does not depend on the order in which rows of several splits come. A timer of the past fires
at a time that depends on it, so its time is not in the output. Where the manifest says that some of what is due has
fired and the rest has not, the checkpoint itself says which.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise

from sim.workload import LATENESS_US, SimRecord

Rows = Counter[tuple[str, tuple[object, ...]]]
State = dict[tuple[int, ...], tuple[int, ...]]
Time = Callable[[int], int | None]
SIZE_US, SLIDE_US, GAP_US = 200, 50, 60
DELAYS_US = (-60, 40, 150)
TALLY = 1
FIRING_JOBS = ("timer", "sliding", "session")


def expected_firings(job: str, records: list[SimRecord]) -> Rows:
    """Count the rows of the whole input."""
    if job == "timer":
        return Counter(("out", (r.key, r.split, r.offset)) for r in records)
    on_time = [r for r in records if not _is_late(job, r)]
    rows: Rows = Counter(("late", (r.key, r.split, r.offset)) for r in records if _is_late(job, r))
    if job == "sliding":
        windows = Counter((r.key, end) for r in on_time for end in _windows(r.ts))
        rows.update(("out", (key, end, n)) for (key, end), n in windows.items())
    else:
        rows.update(("out", (s[0].key, s[0].ts, s[-1].ts + GAP_US, len(s))) for s in _sessions(on_time))
    return rows


def _windows(ts: int) -> range:
    """Return the ends of the windows that hold a time."""
    first = (ts // SLIDE_US + 1) * SLIDE_US
    return range(first, first + SIZE_US, SLIDE_US)


def _is_late(job: str, record: SimRecord) -> bool:
    if job == "sliding":
        return _windows(record.ts)[0] + LATENESS_US <= record.bound
    return record.ts + LATENESS_US < record.bound


def _sessions(records: list[SimRecord]) -> list[list[SimRecord]]:
    by_key: dict[int, list[SimRecord]] = defaultdict(list)
    for record in sorted(records, key=lambda r: r.ts):
        by_key[record.key].append(record)
    found: list[list[SimRecord]] = []
    for own in by_key.values():
        cuts = [0, *(i for i in range(1, len(own)) if own[i].ts - own[i - 1].ts >= GAP_US), len(own)]
        found += [own[first:stop] for first, stop in pairwise(cuts)]
    return found


def expected_firing_state(job: str, prefix: list[SimRecord], reached: Time, firing: Time, found: State) -> State:
    """Fold the records before the offsets of a checkpoint.

    All that is due at ``reached`` of its key has fired, and of what is due at ``firing`` some may have: ``found``
    is the state in question.
    """
    if job == "timer":
        return _timers(prefix, reached, firing, found)
    on_time = [r for r in prefix if not _is_late(job, r)]
    return (_slices if job == "sliding" else _entries)(on_time, reached, firing, found)


def _has_passed(time: int, told: int | None) -> bool:
    return told is not None and time <= told


def _latest(one: int | None, other: int | None) -> int | None:
    return max((time for time in (one, other) if time is not None), default=None)


def _timers(prefix: list[SimRecord], reached: Time, firing: Time, found: State) -> State:
    wanted: State = {}
    for r in prefix:
        entry = (r.key, int(r.split[1:]), r.offset)
        time = r.ts + DELAYS_US[r.offset % len(DELAYS_US)]
        passed = reached(r.key)
        is_set = entry in found and found[entry][0] >= time and not _has_passed(found[entry][0], passed)
        if not _has_passed(time, _latest(passed, firing(r.key))):
            wanted[entry] = (time,)
        elif is_set:
            wanted[entry] = found[entry]  # of the slices that are left, or set when its time had passed
        else:
            tally = (r.key, TALLY)
            wanted[tally] = (wanted.get(tally, (0,))[0] + 1,)
    return wanted


def _slices(prefix: list[SimRecord], reached: Time, firing: Time, found: State) -> State:
    wanted: State = {}
    for (key, end), count in Counter((r.key, _windows(r.ts)[0]) for r in prefix).items():
        passed, gone = reached(key), end + SIZE_US
        ends = [*_windows(end - 1), gone]
        last = next(e for e in ends if e == gone or not _has_passed(e + LATENESS_US, _latest(passed, firing(key))))
        allowed = [e for e in ends if e <= last and (e == gone or not _has_passed(e + LATENESS_US, passed))]
        following = found.get((key, end), (0, gone))[1]
        following = following if following in allowed else allowed[0]
        if following != gone:
            wanted[key, end] = (count, following)
    return wanted


def _entries(prefix: list[SimRecord], reached: Time, firing: Time, found: State) -> State:
    wanted: State = {}
    for session in _sessions(prefix):
        key, over = session[0].key, session[-1].ts + GAP_US + LATENESS_US
        entries: State = {(key, r.ts, int(r.split[1:]), r.offset): () for r in session}
        left = not _has_passed(over, firing(key)) or entries.keys() <= found.keys()
        if left and not _has_passed(over, reached(key)):
            wanted.update(entries)
    return wanted
