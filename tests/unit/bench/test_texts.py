"""Words of real text are counted as the step that splits lines does."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench import texts
from bench.scenario import Scenario
from penstock.base.values import replace
from penstock.steps.stateless import split_words

LINES = ["a b", "", " ", "a  b ", "b\tc", None, "é a", "  ", "last "]


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scenario:
    monkeypatch.setattr(texts, "FOLDER", tmp_path)
    made = Scenario("s", "t", kind="texts", text="1k")
    folder = texts.folder_of(made)
    folder.mkdir()
    for name, lines in (("0", LINES[:4]), ("1", LINES[4:])):
        pq.write_table(pa.table({"line": pa.array(lines, pa.string())}), folder / f"{name}.parquet")
    return made


def test_the_expected_words_are_those_of_the_split_step(scenario: Scenario) -> None:
    words = split_words(pa.array(LINES, pa.string())).words.to_pylist()
    assert "" in words
    sums = sum(n * (n + 1) // 2 for n in Counter(words).values())
    assert texts.expected(scenario) == {"rows": len(words), "count": sums}


def test_a_text_is_read_or_pushed(scenario: Scenario, tmp_path: Path) -> None:
    read, *_ = texts.steps(scenario, tmp_path / "report")
    assert read["source"]["parquet"]["path"] == str(tmp_path / "1k-1")
    pushed, *_ = texts.steps(replace(scenario, replayed=True), tmp_path / "report")
    assert pushed["source"]["ingest"]["announce"] == str(tmp_path / "announced")


def test_reading_alone_has_a_rate(scenario: Scenario) -> None:
    assert texts.read_words_per_s(scenario, 0.01) > 0
