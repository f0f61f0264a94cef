"""The table of faults fits today's source, and the operators make what they say."""

import re
from pathlib import Path
from typing import Any

import pytest

from penstock.base.values import replace
from sim.mutants.table import MUTANTS as CORE_MUTANTS
from sim.publishers.publisher_mutants import MUTANTS as PUBLISHER_MUTANTS
from sim.real_engine.mutants import MUTANTS as ENGINE_MUTANTS
from tools.mutants.ledger import VERDICTS, Ledger, Outcome, Verdict, entry_of, key_of, report
from tools.mutants.operators import faults_of
from tools.mutants.running import judged
from tools.mutants.table import REPOSITORY, Fault, StaleFault, follow, read_faults, stale

FAULT = Fault("f", "worker/a.py", "x + 1", "x + 2", "a count is wrong", ("tests/a.py",))


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


@pytest.mark.parametrize(("old", "new"), [("x + 1", "(x + 1)"), ("# why", "# because"), ("b = 2", "b  =  2")])
def test_a_replacement_that_means_the_same_is_an_error(old: str, new: str) -> None:
    with pytest.raises(StaleFault, match="means the same"):
        Fault("f", "a.py", old, new, "", ()).applied("# why\ny = x + 1\na = 1; b = 2\n")


@pytest.mark.parametrize(("old", "new"), [("@one", "@two"), ("b = 2", "b = 3"), ("a = 1; ", ""), ("pass", "return")])
def test_a_replacement_may_be_in_any_statement_and_in_its_decorators(old: str, new: str) -> None:
    source = "# why\n@one\ndef f():\n    pass\na = 1; b = 2\n"
    assert Fault("f", "a.py", old, new, "", ()).applied(source) == source.replace(old, new)


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


def test_an_entry_may_name_a_test_which_has_to_be_there(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("y = x + 1\n\n\ndef test_it() -> None:\n    pass\n")
    fault = Fault("f", "a.py", "x + 1", "x", "", ("a.py", "a.py::test_it", "a.py::test_that", "b.py::test_it"))
    assert stale({"f": fault}, tmp_path) == ["f: there is no a.py::test_that", "f: there is no b.py::test_it"]


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


REAL = next(iter(read_faults().values()))


def verdict(fault: Fault = REAL, **changed: Any) -> Verdict:
    """Return the verdict of a fault that a test has noticed, but for what is ``changed``."""
    plain = Verdict(fault.id, entry_of(fault), key_of(fault), Outcome.NOTICED, "tests/a.py::test", 1, "2026-11-27")
    return replace(plain, **changed)


@pytest.mark.parametrize("changed", [{}, {"key": "another"}, {"entry": "another"}])
def test_a_verdict_gets_old_with_its_entry_and_with_source_or_tests(tmp_path: Path, changed: dict[str, Any]) -> None:
    file = tmp_path / "build" / "verdicts.csv"
    Ledger(file).add(verdict(**changed))
    again = Ledger(file)
    assert again.of(REAL) == (None if "entry" in changed else verdict(**changed))
    assert again.known(REAL) == (None if changed else verdict())


def test_the_newest_verdict_of_each_fault_has_one_line_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "verdicts.csv"
    for name, day in (("b", "1"), ("a", "1"), ("b", "2")):
        Ledger(file).add(verdict(id=name, day=day))
    head, *lines = file.read_text().splitlines()
    assert head == "id,entry,key,outcome,by,seconds,day"
    assert [(line[0], line[-1]) for line in lines] == [("a", "1"), ("b", "2")]


def test_the_verdicts_of_the_table_can_be_read() -> None:
    assert any(Ledger(VERDICTS).of(fault) for fault in read_faults().values())


@pytest.mark.parametrize(
    ("status", "said", "outcome", "by"),
    [
        (0, "3 passed", Outcome.SURVIVED, ""),
        (1, "FAILED tests/a.py::test_b - assert 1 == 2", Outcome.NOTICED, "tests/a.py::test_b"),
        (
            1,
            "FAILED tests/a.py::test_b - Failed: Timeout (>60.0s) from pytest-timeout.",
            Outcome.HANGS,
            "tests/a.py::test_b",
        ),
        (2, "ERROR tests/a.py - NameError: x", Outcome.NOTICED, "tests/a.py"),
        (None, "...", Outcome.HANGS, "all tests together"),
        (-11, "", Outcome.NOTICED, "the process died of SIGSEGV"),
    ],
)
def test_a_test_that_does_not_end_is_told_from_one_that_fails(
    status: int | None, said: str, outcome: Outcome, by: str
) -> None:
    assert judged(status, said) == (outcome, by)


def test_the_report_names_each_fault_that_is_not_noticed_for_sure(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "verdicts.csv")
    noticed, hanging, alive, new = [replace(REAL, id=name) for name in ("noticed", "hanging", "alive", "new")]
    same = replace(REAL, id="same", equivalent="nobody sees it")
    ledger.add(verdict(noticed, key="another"))
    ledger.add(verdict(hanging, outcome=Outcome.HANGS))
    for fault in (alive, same):
        ledger.add(verdict(fault, outcome=Outcome.SURVIVED))
    said = report([noticed, hanging, alive, same, new], ledger)
    assert said == [
        "mutants: 4 of 5 faults have a verdict: 1 noticed, 1 hang, 2 survive (50.0%)",
        "  3 of them on today's source and tests, 1 before a change of either",
        "  no verdict: new",
        "  hangs: hanging: tests/a.py::test",
        f"  alive ({REAL.file}): NOT NOTICED: {REAL.harm}",
        f"  same ({REAL.file}): equivalent: nobody sees it",
    ]


def test_each_fault_that_the_page_of_reliability_names_for_a_rule_is_there() -> None:
    page = (REPOSITORY / "RELIABILITY.md").read_text(encoding="utf-8")
    section = page.partition("\n## Which mutant shows which rule\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    named = {name for row in rows for name in re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+)+)`", row)}
    known = {*read_faults(), *CORE_MUTANTS, *ENGINE_MUTANTS, *PUBLISHER_MUTANTS}
    assert len(named) > 100
    assert named - known == set()
