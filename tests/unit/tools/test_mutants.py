"""The table of faults fits today's source, and the operators make what they say."""

from pathlib import Path

import pytest

from tools.mutants.operators import faults_of
from tools.mutants.running import Results, Verdict
from tools.mutants.table import REPOSITORY, Fault, StaleFault, follow, read_faults, stale

FAULT = Fault("f", "worker/a.py", "x + 1", "x + 2", "a count is wrong", ("tests/a.py",))


def test_every_fault_fits_the_source_and_names_tests_that_are_there() -> None:
    assert not stale(read_faults())


def test_the_table_is_long_enough_and_few_of_its_faults_are_equivalent() -> None:
    faults = read_faults().values()
    assert len(faults) >= 120
    assert sum(bool(fault.equivalent) for fault in faults) <= 0.05 * len(faults)
    areas = {fault.file.split("/")[2] for fault in faults}
    assert areas >= {"connectors", "engine", "keeper", "protocol", "keyed_state", "storage", "transport"}
    assert all(fault.harm and fault.tests for fault in faults)


@pytest.mark.parametrize(
    ("source", "problem"),
    [("y = x + 2", "0 times"), ("y = x + 1 + (x + 1)", "2 times"), ("y = (x + 1", "does not compile")],
)
def test_an_entry_that_does_not_fit_is_an_error(source: str, problem: str) -> None:
    with pytest.raises(StaleFault, match=problem):
        FAULT.applied(source)


def test_a_replacement_that_means_the_same_is_an_error() -> None:
    with pytest.raises(StaleFault, match="means the same"):
        Fault("f", "a.py", "x + 1", "(x + 1)", "", ()).applied("y = x + 1")


def test_an_entry_follows_its_text_into_another_file(tmp_path: Path) -> None:
    worker, table = tmp_path / "worker" / "penstock", tmp_path / "faults"
    for folder in (worker, table):
        folder.mkdir(parents=True)
    (worker / "new.py").write_text("y = x + 1\n")
    entry = "# head\n[[fault]]\nid = 'f'\nfile = \"worker/penstock/old.py\"\nold = 'x + 1'\nnew = 'x'\n"
    (table / "a.toml").write_text(entry)
    assert follow(table, tmp_path) == ["f: worker/penstock/old.py -> worker/penstock/new.py"]
    assert (table / "a.toml").read_text() == entry.replace("old.py", "new.py")
    assert follow(table, tmp_path) == []


def made(source: str) -> dict[str, set[str]]:
    """Return what the operators make of a source, by the name of the operator."""
    found: dict[str, set[str]] = {}
    for fault in faults_of("a.py", source, ()):
        compile(fault.applied(source), "a.py", "exec")
        found.setdefault(fault.id.partition(":")[0], set()).add(fault.new)
    return found


def test_the_operators_make_one_change_each() -> None:
    assert made("if a:\n    b()\n") == {"negate": {"if (not (a)):\n    b()\n"}, "drop-call": {"if a:\n    pass\n"}}
    assert made("x = any(y)\n") == {"all-any": {"x = all(y)\n"}}
    assert made("x = min(y, z)\n") == {"min-max": {"x = max(y, z)\n"}}
    assert made("x = y <= z\n") == {"edge": {"x = y < z\n"}}
    assert made("x = y > z\n") == {"edge": {"x = y >= z\n"}}
    assert made("x = y and z\n") == {"and-or": {"x = ((y) or (z))\n"}}
    assert made("x = 1\n") == {"off-by-one": {"x = 2\n"}}
    assert made("log.info('what')\nif TYPE_CHECKING:\n    import a\nx = 4096\n") == {}


def test_the_operators_find_something_in_a_real_file() -> None:
    file = "worker/penstock/transport/input.py"
    source = (REPOSITORY / file).read_text(encoding="utf-8")
    assert {name.partition(":")[0] for name in (f.id for f in faults_of(file, source, ()))} >= {"negate", "drop-call"}


def test_a_verdict_is_kept_until_source_or_tests_change(tmp_path: Path) -> None:
    file = tmp_path / "build" / "results.json"
    verdict = Verdict("f", "digest", noticed=True, by="tests/a.py::test", seconds=1.0)
    Results(file).add(verdict)
    again = Results(file)
    assert again.known(FAULT, "digest") == verdict
    assert again.known(FAULT, "another digest") is None
