"""A job goes on exactly when a function converts its state to another class: through kills and rescales.

As in test_evolving_state, each row that is written says which version of the function made it.
"""

from collections.abc import Iterator
from pathlib import Path

from tests.integration.changing_readings import changing_job, check_versions, write_input

FIRST = """
@ps.state
class Kept:
    number: int = 1000
    last: ps.Ring[int, 3]
    label: str = "none"
    odd: ps.Set[int]


def look(r: Reading, s: Kept, out: ps.Out[Seen]):
    s.number += 1
    s.last.append(r.value)
    s.label = f"{r.value}"
    s.odd.add(r.value % 7)
    out.emit(Seen(r.mote, 1, s.number, f"{list(s.last)} {s.label} {list(s.odd)}"))
"""
NOW = """
@ps.state
class Old:
    number: int = 1000
    last: ps.Ring[int, 3]
    label: str = "none"
    odd: ps.Set[int]


@ps.state
class Now:
    half: float = 500.0
    items: ps.List[int]
    odd: ps.Map[str, int]
"""
LOOK = """

def look(r: Reading, s: Now, out: ps.Out[Seen]):
    s.half += 0.5
    s.items.append(r.value)
    if len(s.items) > 4:
        s.items.popleft()
    name = f"{r.value % 7}"
    s.odd[name] = s.odd.get(name, 0) + 1
    out.emit(Seen(r.mote, VERSION, int(s.half * 2), f"{list(s.items)} {list(s.odd.items())} EXTRA"))
"""
CONVERT = """

def convert(old: Old) -> Now:
    return Now(half=old.number / 2, items=[*old.last, int(old.label)], odd={f"{n}": 100 * n for n in old.odd})
"""
SECOND = NOW + CONVERT + LOOK.replace("VERSION", "2").replace(" EXTRA", "")
# The function stays in the code. It is not called any more, and a field is added.
THIRD = (
    NOW
    + """    since: int = 7


def convert(old: Old) -> Now:
    raise AssertionError("nothing is left to convert")
"""
    + LOOK.replace("VERSION", "3").replace("EXTRA", "{s.since}")
)


def expected(values: list[int], versions: list[int]) -> Iterator[tuple[int, int, str]]:
    """Compute the rows of one mote, of which each value was seen by a version."""
    number, last, odd = 1000, list[int](), set[int]()
    items, counts, before = list[int](), dict[str, int](), versions[0]
    for value, version in zip(values, versions, strict=True):
        if version > 1 and before == 1:
            items, counts = [*last, last[-1]], {f"{n}": 100 * n for n in odd}
        number, before = number + 1, version
        if version == 1:
            last = [*last, value][-3:]
            odd.add(value % 7)
            yield version, number, f"{last} {value} {sorted(odd)}"
            continue
        items = [*items, value][-4:] if len(items) >= 4 else [*items, value]
        counts[f"{value % 7}"] = counts.get(f"{value % 7}", 0) + 1
        yield version, number, f"{items} {sorted(counts.items())}" + (" 7" if version == 3 else "")


def test_a_migration_is_exact_through_kills_and_rescales(tmp_path: Path) -> None:
    values = write_input(tmp_path / "in")
    with changing_job(tmp_path, FIRST, 50) as job:
        job.change(SECOND, 50)
        job.rig.lose(1)  # before an epoch: the state is migrated again
        job.rig.spawn(2)
        job.rig.rescale(3)  # the first epoch of the migrated state
        job.rig.lose(2)
        job.rig.rescale(2)
        job.change(THIRD, 0)  # the rest of the input at once
        job.rig.finish()
    check_versions(tmp_path / "out", values, expected)
