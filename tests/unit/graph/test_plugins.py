"""Connectors of installed packages: found by entry point, and each fault has a message that says what to do."""

import sys
from collections.abc import Iterator
from importlib import invalidate_caches
from pathlib import Path
from textwrap import dedent

import pytest

import penstock as ps
from penstock.graph.plugins import GROUP
from tests.unit.graph.test_bad_graphs import HEAD, message

NAMES = ("in", "out")

LETTERS = """
import pyarrow as pa
import penstock as ps

class Letters:
    schema = pa.schema([("word", pa.string())])
    bounded = True

    def __init__(self, word: str, *, times: int = 1, loud: bool = False, step):
        self.word, self.times, self.step = (word.upper() if loud else word), times, step
        if times < 1:
            raise ps.ConfigError(f"times: must be at least 1, not {times}")
        assert word != "boom"

    def splits(self):
        return [ps.SplitState("only", self.step, 0)]

    def open(self, state):
        return Reader(self, state)

class Reader:
    def __init__(self, letters, state):
        self.letters, self.offset, self.finished = letters, state.offset, False

    def read(self, most):
        rest = [self.letters.word] * self.letters.times
        rest = rest[self.offset : self.offset + most]
        if not rest:
            self.finished = True
            return None
        first, self.offset = self.offset, self.offset + len(rest)
        return ps.Read(pa.record_batch({"word": pa.array(rest, pa.string())}), first)

    def state(self):
        return ps.SplitState("only", self.letters.step, self.offset, self.finished)

    def committed(self, epoch, state):
        pass

    def close(self):
        pass

plugin = ps.ConnectorPlugin(source=Letters)
newer = ps.ConnectorPlugin(source=Letters, api=2)
empty = ps.ConnectorPlugin(source=lambda: {})
opaque = ps.ConnectorPlugin(source=dict)
other = 7
"""


class Site:
    """A folder on the path of imports, with packages as pip installs them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        (root / "letters_of_test.py").write_text(LETTERS)

    def install(self, package: str, name: str = "letters", value: str = "letters_of_test:plugin") -> None:
        """Install a package that has an entry point."""
        folder = self._root / f"{package.replace('-', '_')}-1.2.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        (folder / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {value}\n")
        invalidate_caches()

    def module(self, name: str, text: str) -> None:
        """Write a module."""
        (self._root / f"{name}.py").write_text(dedent(text))
        invalidate_caches()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    root = tmp_path / "site"
    root.mkdir()
    monkeypatch.syspath_prepend(root)
    yield Site(root)
    for name in ("letters_of_test", "letters_broken"):
        sys.modules.pop(name, None)


def told(root: Path, options: str, kind: str = "letters", role: str = "source") -> str:
    """Return what is said of a job file whose source, or sink, has these options."""
    plugin = f"{{plugin: {{kind: {kind}, options: {{{options}}}}}}}"
    steps = {"source": "{generator: {rows: 1}}", "sink": "{discard: {}}", role: plugin}
    lines = "".join(
        f"        - {{name: {name}, {which}: {each}}}\n"
        for name, (which, each) in zip(NAMES, steps.items(), strict=True)
    )
    file = root / "job.yaml"
    file.write_text(f"{HEAD}    graph:\n      steps:\n{lines}")
    return message(file)


def rows(connector: object) -> list[str]:
    """Return the words of a source."""
    job = ps.Job()
    job.source("in", connector).sink("out", ps.discard())
    return [row["word"] for row in ps.run(job, collect=True)["out"]]


def test_a_job_reads_by_a_package(site: Site) -> None:
    site.install("letters-for-penstock")
    assert rows(ps.plugin("letters", word="a", times=3)) == ["a"] * 3
    assert rows(ps.plugin("letters", word="a", times="2", loud="true")) == ["A"] * 2, "texts as in a job file"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("wrod: a", "unknown option 'wrod': did you mean 'word'?"),
        ("word: a, step: b", "unknown option 'step'"),
        ("times: 2", "it needs the option word"),
        ("word: a, times: many", "times: must be a whole number, not 'many'"),
        ("word: a, loud: 'yes'", "loud: must be true or false, not 'yes'"),
        ("word: a, times: 0", "letters-for-penstock 1.2: times: must be at least 1, not 0"),
        ("word: boom", 'assert word != "boom"'),
    ],
)
def test_options_that_do_not_fit_are_told_with_the_line(site: Site, tmp_path: Path, options: str, said: str) -> None:
    site.install("letters-for-penstock")
    text = told(tmp_path, options)
    assert said in text
    assert "job.yaml:" in text
    assert "step 'in'" in text


def test_an_unknown_kind_lists_what_is_there(site: Site, tmp_path: Path) -> None:
    assert "Installed connectors: none" in told(tmp_path, "word: a")
    site.install("letters-for-penstock")
    text = told(tmp_path, "word: a", "leters")
    assert "unknown source 'leters': did you mean 'letters'? Built in are parquet, json, csv, kafka" in text
    assert "Installed connectors: letters (package letters-for-penstock 1.2)" in text


def test_two_packages_of_one_name_are_refused(site: Site, tmp_path: Path) -> None:
    site.install("letters-for-penstock")
    site.install("more-letters")
    text = told(tmp_path, "word: a")
    assert "in several packages, letters-for-penstock 1.2 and more-letters 1.2: uninstall all but one" in text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("letters_of_test:nothing", "does not import: AttributeError"),
        (
            "letters_that_are_gone:plugin",
            "does not import: ModuleNotFoundError: No module named 'letters_that_are_gone'",
        ),
        ("letters_broken:plugin", "plugin = 1 / 0"),
        ("letters_of_test:other", "is int, not ps.ConnectorPlugin"),
        ("letters_of_test:newer", "written for version 2 of the connector API, and this is version 1"),
        ("letters_of_test:opaque", "<class 'dict'> is no function or class of Python that makes one"),
        ("letters_of_test:empty", "dict is not a source: it lacks bounded, schema, splits, open"),
    ],
)
def test_a_package_that_does_not_fit_is_named(site: Site, tmp_path: Path, value: str, said: str) -> None:
    site.module("letters_broken", "plugin = 1 / 0\n")
    site.install("letters-for-penstock", value=value)
    text = told(tmp_path, "")
    assert said in text
    assert "'letters' of package letters-for-penstock 1.2" in text


def test_a_source_is_no_sink(site: Site, tmp_path: Path) -> None:
    site.install("letters-for-penstock")
    text = told(tmp_path, "", role="sink")
    assert "is no sink: it has a source only" in text


def test_what_is_built_in_is_named_as_ever(tmp_path: Path) -> None:
    assert "'kafka' is built in: a job file names it without plugin" in told(tmp_path, "", "kafka")
    with pytest.raises(ps.ConfigError, match="'csv' is built in"):
        ps.plugin("csv", path="a")
