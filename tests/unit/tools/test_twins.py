"""A class or file name that occurs twice needs a reason, and a reason needs two such names."""

from pathlib import Path

import pytest

from tools import twins

ONE = "class Barrier:\n    class Kind: ...\n"


def test_a_name_twice_is_a_complaint_with_both_places() -> None:
    classes, files = twins.names_of({"worker/a.py": ONE, "sim/a.py": "\nclass Kind: ...\n"})
    assert twins.complaints("class", classes, {}) == [
        "worker/a.py:2: class Kind is also at sim/a.py:2: rename one, or give the reason in tools/twins.py"
    ]
    assert len(twins.complaints("file", files, {})) == 1


def test_a_reason_allows_a_name_that_occurs_twice() -> None:
    classes, _ = twins.names_of({"worker/a.py": ONE, "worker/b.py": ONE})
    assert not twins.complaints("class", classes, {"Barrier": "why", "Kind": "why"})


def test_a_reason_without_two_names_has_to_go() -> None:
    classes, _ = twins.names_of({"worker/a.py": ONE})
    assert twins.complaints("class", classes, {"Kind": "why"}) == [
        "tools/twins.py: class Kind does not occur twice any more: remove its reason"
    ]


def test_files_that_python_names_are_no_twins() -> None:
    _, files = twins.names_of({"worker/a/__init__.py": "", "worker/b/__init__.py": ""})
    assert not files


def test_the_exit_status_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("worker", "sim", "tests"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.py").write_text("")
    assert twins.main(tmp_path) == 1
    assert "worker/same.py: file same.py is also at sim/same.py" in capsys.readouterr().out
