"""The table of faults: ``faults/*.toml``, written by hand, each entry with what it would do to a user.

::

    [[fault]]
    id = "name-of-the-fault"                  # unique in all files
    file = "worker/penstock/engine/router.py" # from the top of the repository
    old = "text that occurs exactly once"     # one line or several
    new = "its replacement"
    harm = "what a user would see"
    tests = ["tests/unit/engine/test_router.py"]  # which should notice it; the fastest first
    equivalent = "why no test can notice it"  # only for a survivor
    rule = "copies"                           # only where it stands for a rule of sim/mutants/rules.py
"""

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
FAULTS = Path(__file__).parent / "faults"
_ENTRY = "[[fault]]"


class StaleFault(Exception):
    """An entry that does not apply to the source of today."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. ``tests`` are run with it, and at least one of them has to fail: folders, files, or ``FILE::TEST``.

    A test is named where another one of its file never ends with the fault.
    ``equivalent`` is the reason why none can fail; empty for a fault that must be noticed.
    """

    id: str
    file: str
    old: str
    new: str
    harm: str
    tests: tuple[str, ...]
    equivalent: str = ""
    rule: str = ""

    def applied(self, source: str) -> str:
        """Return the source with the fault. Raises StaleFault unless the old text occurs exactly once."""
        count = source.count(self.old)
        if count != 1:
            raise StaleFault(f"{self.id}: {self.file} has the old text {count} times: mend the entry")
        changed = source.replace(self.old, self.new)
        try:
            same = _mean_the_same(source, changed)
        except SyntaxError as error:
            raise StaleFault(f"{self.id}: {self.file} does not compile with the new text: {error}") from error
        if same:
            raise StaleFault(f"{self.id}: the new text means the same as the old one")
        return changed


def _mean_the_same(source: str, changed: str) -> bool:
    """Return whether two texts differ in comments and layout alone. Raises SyntaxError."""
    mine, other = _statements_of_file(source), _statements(changed)
    return len(mine) == len(other) and all(
        text == new_text or ast.dump(tree) == ast.dump(new_tree)
        for (text, tree), (new_text, new_tree) in zip(mine, other, strict=True)
    )


def _statements(source: str) -> list[tuple[list[str], ast.stmt]]:
    """Return the outermost statements, each with its lines. Comments and decorators belong to the next statement."""
    lines, end = source.splitlines(), 0
    found: list[tuple[list[str], ast.stmt]] = []
    for tree in ast.parse(source).body:
        begin = min(end, tree.lineno - 1)  # two statements may share a line
        end = tree.end_lineno or len(lines)
        found.append((lines[begin:end], tree))
    return found


_statements_of_file = lru_cache(maxsize=64)(_statements)  # many faults are of one file


def read_faults(folder: Path = FAULTS) -> dict[str, Fault]:
    """Read all files of the table, by id. Raises ValueError when an id is used twice."""
    found: dict[str, Fault] = {}
    for fault in _entries(folder):
        if fault.id in found:
            raise ValueError(f"two faults are named {fault.id!r}")
        found[fault.id] = fault
    return found


def _entries(folder: Path) -> Iterator[Fault]:
    for path in sorted(folder.glob("*.toml")):
        for plain in tomllib.loads(path.read_text(encoding="utf-8"))["fault"]:
            yield Fault(**{**plain, "tests": tuple(plain["tests"])})


def stale(faults: dict[str, Fault], repository: Path = REPOSITORY) -> list[str]:
    """Return what is wrong with the entries: sources that changed, and tests that are gone."""
    problems: list[str] = []
    for fault in faults.values():
        missing = [test for test in fault.tests if not _is_there(test, repository)]
        problems += [f"{fault.id}: there is no {test}" for test in missing]
        try:
            fault.applied((repository / fault.file).read_text(encoding="utf-8"))
        except FileNotFoundError:
            problems.append(f"{fault.id}: there is no {fault.file}")
        except StaleFault as error:
            problems.append(str(error))
    return problems


def _is_there(test: str, repository: Path) -> bool:
    file, _, name = test.partition("::")
    path = repository / file
    return path.exists() and (not name or f"def {name}(" in path.read_text(encoding="utf-8"))


def follow(folder: Path = FAULTS, repository: Path = REPOSITORY) -> list[str]:
    """Write the new file into each entry whose text has moved; return what was changed, for people.

    A text has moved when its file does not have it any more, and one file of the worker has it once.
    """
    paths = sorted((repository / "worker" / "penstock").rglob("*.py"))
    sources = {str(path.relative_to(repository)): path.read_text(encoding="utf-8") for path in paths}
    moved: list[str] = []
    for path in sorted(folder.glob("*.toml")):
        head, *entries = path.read_text(encoding="utf-8").split(_ENTRY)
        found = [_followed(entry, sources, moved) for entry in entries]
        path.write_text(_ENTRY.join([head, *found]), encoding="utf-8")
    return moved


def _followed(entry: str, sources: dict[str, str], moved: list[str]) -> str:
    plain = tomllib.loads(entry)
    file, old = plain["file"], plain["old"]
    if old in sources.get(file, ""):
        return entry
    places = [name for name, source in sources.items() if source.count(old) == 1]
    if len(places) != 1:
        return entry
    moved.append(f"{plain['id']}: {file} -> {places[0]}")
    return entry.replace(f'file = "{file}"', f'file = "{places[0]}"')
