"""A Python file as a job file: its job is found, or it is said in which line why not."""

import errno
import io
import os
from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import ConfigError, StorageError
from penstock.cli.preflight import parameter_lines
from penstock.graph import JobFile, keep_job_file, load_job, read_job_file

GRAPH = """\
import penstock as ps

def job(params):
    job = ps.Job()
    made = job.source("made", ps.generator(rows=int(params.get("rows", "5"))))
    made.sink("out", ps.discard())
    return job
"""
OBJECT = """\
import penstock as ps

words = ps.Job()
words.source("made", ps.generator(rows=5)).sink("out", ps.discard())
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(text: str, *settings: str, name: str = "word_count.py") -> JobFile:
    Path(name).write_text(text)
    return read_job_file(Path(name), settings)


def refused(text: str, *settings: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_job(read(text, *settings), None)
    return str(caught.value)


@pytest.mark.parametrize("text", [GRAPH, OBJECT])
def test_the_job_is_a_function_or_an_object(text: str) -> None:
    job = load_job(read(text), None)
    assert job.name == "word-count"
    assert [s.name for s in job.graph.steps] == ["made", "out"]
    assert job.places["made"] == f"word_count.py:{text[: text.index('source(')].count(chr(10)) + 1}"


def test_settings_reach_it_and_a_kept_copy_builds_the_same(tmp_path: Path) -> None:
    file = read(GRAPH, "job.parameters.rows=7", "replicas=2")
    keep_job_file(file, tmp_path / "kept" / "job.json")
    Path("word_count.py").write_text("raise SystemExit")  # what was read is what runs
    kept = load_job(tmp_path / "kept" / "job.json", None)
    assert kept.graph == load_job(file, None).graph
    assert kept.spec.replicas == 2
    assert kept.graph.steps[0].parameters.connector.options["rows"] == 7  # type: ignore[union-attr]


def test_a_name_that_is_bound_twice_is_one_job() -> None:
    assert load_job(read(OBJECT + "job = words\nagain = job\n"), None).name == "word-count"


def test_the_file_knows_where_it_is_and_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("ROWS = 3\n")
    text = (
        "import pathlib\nfrom beside import ROWS\n"
        "assert pathlib.Path(__file__).is_file()\nassert __name__ != '__main__'\n"
    )
    assert load_job(read(text + GRAPH), None).name == "word-count"


def test_a_file_without_a_job() -> None:
    assert refused("x = 1\n").startswith("word_count.py:1: the file defines no job: write a function job(params)")
    assert refused("").startswith("word_count.py:1: ")


def test_a_file_with_two_jobs() -> None:
    said = refused(OBJECT + "\nmore = ps.Job()\n")
    assert said == (
        "word_count.py:6: the file defines more than one job: words at word_count.py:3, more at word_count.py:6"
    )
    assert "job() at word_count.py:3, other at word_count.py:4" in refused(GRAPH + "\nother = job({})\n")


def test_a_file_that_raises_names_its_line() -> None:
    said = refused("x = 1\ny = x / 0\n")
    assert said.startswith("word_count.py:2: ZeroDivisionError: division by zero\nTraceback")
    assert refused("x = 1\ny =\n") == "word_count.py:2: invalid syntax"
    assert refused("import sys\n\nsys.exit(3)\n").startswith("word_count.py:3: SystemExit: 3")
    assert "word_count.py:3 (in job): KeyError" in refused("def job(params):\n\n    return {}[1]\n")
    assert "the function returned int" in refused("def job(params):\n    return 7\n")


def test_an_import_with_a_wrong_line_names_that_file() -> None:
    Path("broken.py").write_text("x =\n")
    said = refused("\n\nimport broken\n")
    assert said.startswith("broken.py:1: SyntaxError: invalid syntax")


def test_an_object_takes_no_parameters() -> None:
    assert "word_count.py:3: this job takes no parameters (rows)" in refused(OBJECT, "job.parameters.rows=1")


@pytest.mark.parametrize("name", ["job.yaml", "job.py", "job.places.json"])
def test_storage_that_does_not_answer_is_no_fault_of_the_file(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """After a StorageError an engine is started again, after a ConfigError the job fails."""
    file = Path("job.py" if name == "job.py" else "job.yaml")
    Path(name).write_text("{}")
    file.write_text("kind: StreamJob")
    real = io.open

    def fails(path: Any, *more: Any, **options: Any) -> Any:
        if Path(path).name == name:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(path, *more, **options)

    monkeypatch.setattr(io, "open", fails)
    with pytest.raises(StorageError, match=rf"{name}: cannot be read: Input/output error"):
        read_job_file(file)


def test_what_is_no_readable_file_is_said() -> None:
    with pytest.raises(ConfigError, match=r"none\.py: there is no such file"):
        read_job_file(Path("none.py"))
    Path("latin.py").write_bytes(b"x = '\xe9'\n")
    with pytest.raises(ConfigError, match=r"latin\.py: is no text in UTF-8"):
        read_job_file(Path("latin.py"))
    Path("folder.py").mkdir()
    with pytest.raises(ConfigError, match=r"folder\.py: cannot be read"):
        read_job_file(Path("folder.py"))
    assert "null byte" in refused("x = 1\0\n")


@pytest.mark.parametrize("name", ["json.py", "queue.py", "types.py", "penstock.py"])
def test_a_file_that_would_hide_a_standard_module_is_named(name: str) -> None:
    Path(name).touch()
    with pytest.raises(
        ConfigError, match=rf"{name}: it would hide the module {name[:-3]} from Python: give it another"
    ):
        load_job(read(GRAPH), inspector=None)
    Path(name).rename("mine.py")
    Path("test.py").touch()
    load_job(read(GRAPH), inspector=None)


@pytest.mark.parametrize(
    ("look", "asked"),
    [
        ('params["rate"]', {"rate"}),
        ('params.integer("rate", 3)', {"rate"}),
        ('params.get("speed", "3")', {"speed"}),
        ('"speed" in params', {"speed"}),
        ("dict(params)", {"rate", "rat"}),
        ("None", set()),
    ],
)
def test_a_parameter_that_the_job_has_not_asked_for_is_named(look: str, asked: set[str]) -> None:
    text = GRAPH.replace('int(params.get("rows", "5"))', "5").replace("    job = ", f"    {look}\n    job = ")
    given = {"rate": "1", "rat": "2"}
    compiled = load_job(read(text, *(f"job.parameters.{n}={v}" for n, v in given.items())), inspector=None)
    assert compiled.asked == frozenset(asked)
    unasked = sorted(given.keys() - asked)
    said = parameter_lines(compiled, given)
    assert [line.partition("built: ")[2].partition(" (")[0] for line in said] == (
        [", ".join(unasked)] if unasked else []
    )
