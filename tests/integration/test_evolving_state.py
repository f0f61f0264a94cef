"""A job goes on exactly when the class of its state changes: through kills and rescales, in real processes.

Each row that is written says which version of the function made it. How far a version came depends on the machine;
what each row must have does not.
"""

from collections.abc import Iterator
from pathlib import Path

from tests.integration.changing_readings import changing_job, check_versions, write_input

STATE = """
@ps.state
class Kept:
    number: int = 1000
"""
FIRST = (
    STATE
    + """
    last: ps.Ring[int, 3]
    label: str = "none"
    odd: ps.Set[int]


def look(r: Reading, s: Kept, out: ps.Out[Seen]):
    s.number += 1
    s.last.append(r.value)
    s.label = f"{r.value}"
    s.odd.add(r.value % 7)
    out.emit(Seen(r.mote, 1, s.number, f"{list(s.last)} {list(s.odd)}"))
"""
)
SECOND = (
    STATE
    + """
    since: ps.int16 = 50
    last: ps.Ring[int, 3]
    few: ps.Map[int, int]


def look(r: Reading, s: Kept, out: ps.Out[Seen]):
    s.number += 1
    s.since += 1
    s.last.append(r.value)
    s.few[r.value % 5] = s.few.get(r.value % 5, 0) + 1
    out.emit(Seen(r.mote, 2, s.number, f"{list(s.last)} {s.since} {list(s.few.items())}"))
"""
)
THIRD = (
    STATE
    + """
    odd: ps.Set[int]
    after: float | None = ps.renamed("since", default=9.0)
    last: ps.Ring[int, 2]
    counts: ps.Map[int, int] = ps.renamed("few")


def look(r: Reading, s: Kept, out: ps.Out[Seen]):
    s.number += 1
    s.after += 1
    s.odd.add(r.value % 7)
    s.last.append(r.value)
    out.emit(Seen(r.mote, 3, s.number, f"{list(s.last)} {s.after} {list(s.odd)} {list(s.counts.items())}"))
"""
)


def expected(values: list[int], versions: list[int]) -> Iterator[tuple[int, int, str]]:
    """Compute the rows of one mote, of which each value was seen by a version."""
    number, last, odd, before = 1000, list[int](), set[int](), versions[0]
    few = dict[int, int]()
    since: float = 9 if before == 3 else 50  # the second version gives it to all keys that are there
    for value, version in zip(values, versions, strict=True):
        if version != before:
            odd, before = set(), version  # the second version has dropped it, and the third begins anew
        number, since = number + 1, since + (version > 1)
        last = [*last, value][-2 if version == 3 else -3 :]
        odd.add(value % 7)
        if version == 2:
            few[value % 5] = few.get(value % 5, 0) + 1
        more = {
            1: f"{sorted(odd)}",
            2: f"{since} {sorted(few.items())}",
            3: f"{since:.1f} {sorted(odd)} {sorted(few.items())}",
        }[version]
        yield version, number, f"{last} {more}"


def test_fields_that_change_are_exact_through_kills_and_rescales(tmp_path: Path) -> None:
    values = write_input(tmp_path / "in")
    with changing_job(tmp_path, FIRST, 50) as job:
        job.change(SECOND, 50)
        job.rig.spawn(2)
        job.rig.rescale(3)  # the first epoch of the changed job
        job.rig.lose(2)
        job.rig.rescale(2)
        job.change(THIRD, 0)  # the rest of the input at once
        job.rig.finish()
    check_versions(tmp_path / "out", values, expected)
