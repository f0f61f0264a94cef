import subprocess
from pathlib import Path

import pytest

from tools import hygiene

BANNED = [
    "import pickle",
    "import marshal as m",
    "from cloudpickle import dumps",
    "import yaml\nyaml.load(text)",
    "import numpy\nnumpy.load(path, allow_pickle=True)",
    "eval(text)",
    "try:\n    f()\nexcept Exception:\n    pass",
    "try:\n    f()\nexcept:\n    ...",
]
FINE = [
    "import json",
    "import yaml\nyaml.safe_load(text)",
    "import numpy\nnumpy.load(path, allow_pickle=False)",
    "try:\n    f()\nexcept Exception:\n    report()",
    "try:\n    f()\nexcept KeyError:\n    pass",
    "import time\ntime.sleep(1)",
]


@pytest.mark.parametrize("source", BANNED)
def test_banned(source: str) -> None:
    assert len(hygiene.complaints("worker/a.py", source)) == 1


@pytest.mark.parametrize("source", FINE)
def test_fine(source: str) -> None:
    assert hygiene.complaints("worker/a.py", source) == []


@pytest.mark.parametrize("call", ["time.sleep(1)", "mock.patch('penstock.x')"])
def test_tests_neither_sleep_nor_patch(call: str) -> None:
    assert len(hygiene.complaints("tests/unit/test_a.py", call)) == 1
    assert hygiene.complaints("bench/a.py", call) == []


def test_only_the_entrypoint_runs_a_script() -> None:
    (allowed,) = hygiene.EXEC_ALLOWED
    assert hygiene.complaints(allowed, "exec(code)") == []
    assert hygiene.complaints("worker/a.py", "exec(code)") == ["worker/a.py:1: exec runs code from data"]


def test_an_engine_ends_its_process_where_the_simulation_sees_it() -> None:
    assert len(hygiene.complaints("worker/penstock/engine/a.py", "os._exit(1)")) == 1
    assert hygiene.complaints("worker/penstock/keeper/a.py", "os._exit(1)") == []


def test_git_has_no_symbolic_links(tmp_path: Path) -> None:
    (tmp_path / "kept").symlink_to("/of/one/machine")
    assert hygiene.links(tmp_path) == []
    for command in (["init", "-q"], ["add", "kept"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    assert hygiene.links(tmp_path) == ["kept: a symbolic link in git"]


def test_the_exit_status_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / "a.py").write_text("import json\n")
    assert hygiene.main(tmp_path) == 0
    (tmp_path / "spark" / "b.py").write_text("\nimport pickle\n")
    assert hygiene.main(tmp_path) == 1
    assert "spark/b.py:2: pickle runs code from data" in capsys.readouterr().out
