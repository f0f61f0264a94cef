"""The table of slow tests names tests that are there, and leaves out nothing else."""

import ast
from pathlib import Path

from tests.support.slow_tests import is_slow, missing, slow_tests

ROOT = Path(__file__).parents[3]


def test_each_entry_is_a_test_that_is_there() -> None:
    functions: dict[str, set[str]] = {}
    for name in slow_tests():
        file, _, test = name.partition("::")
        if file not in functions:
            tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
            functions[file] = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert test.partition("[")[0] in functions[file], name


def test_an_entry_is_a_test_or_all_tests_of_a_function() -> None:
    slow = {"tests/a.py::test_all", "tests/a.py::test_one[2]"}
    assert is_slow("tests/a.py::test_all", slow)
    assert is_slow("tests/a.py::test_all[1]", slow)
    assert is_slow("tests/a.py::test_one[2]", slow)
    assert not is_slow("tests/a.py::test_one[1]", slow)
    assert not is_slow("tests/b.py::test_all", slow)


def test_an_entry_whose_values_have_changed_is_named() -> None:
    collected = ["tests/a.py::test_one[1]", "tests/a.py::test_one[2]", "tests/a.py::test_all[1]"]
    slow = ["tests/a.py::test_one[2]", "tests/a.py::test_one[3]", "tests/a.py::test_all", "tests/b.py::test_two[1]"]
    assert missing(slow, collected) == ["tests/a.py::test_one[3]"], "of b nothing was collected"
