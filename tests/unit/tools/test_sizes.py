from pathlib import Path

import pytest

from tools import sizes


def function(lines: int) -> str:
    return "def f():\n" + "    pass\n" * (lines - 1)


@pytest.mark.parametrize(("lines", "count"), [(50, 0), (51, 1)])
def test_a_function_may_have_50_lines(lines: int, count: int) -> None:
    assert len(sizes.complaints("a.py", function(lines))) == count


@pytest.mark.parametrize(("lines", "count"), [(600, 0), (601, 1)])
def test_a_file_may_have_600_lines(lines: int, count: int) -> None:
    assert len(sizes.complaints("a.py", "x = 1\n" * lines)) == count


def test_a_complaint_names_file_line_and_function() -> None:
    assert sizes.complaints("a/b.py", "import c\n\n" + function(60)) == [
        "a/b.py:3: function f has 60 lines, at most 50"
    ]


def test_decorators_count_and_methods_and_nested_functions_are_seen() -> None:
    source = "class C:\n    @d\n    @d\n    async def m(self):\n        def n(): pass\n        n()\n"
    assert [(f.name, f.lines) for f in sizes.functions(source)] == [("m", 5), ("n", 1)]


def test_the_exit_status_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "worker").mkdir()
    (tmp_path / "worker" / "good.py").write_text(function(3))
    assert sizes.main(tmp_path) == 0
    (tmp_path / "worker" / "bad.py").write_text(function(51))
    assert sizes.main(tmp_path) == 1
    assert "worker/bad.py:1: function f has 51 lines" in capsys.readouterr().out
