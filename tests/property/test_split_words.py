"""Splitting lines agrees with ``str.split(" ")`` less one trailing empty word."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import ConfigError
from penstock.steps.stateless import split_words

LINES = st.lists(st.none() | st.text(alphabet=" ab\u00e9\U0001d11e\t", max_size=40), max_size=20)


def naive(line: str | None) -> list[str]:
    words = [] if line is None else line.split(" ")
    return words[:-1] if words and words[-1] == "" else words


@given(LINES, st.booleans(), st.integers(0, 3))
def test_words_are_those_of_str_split(lines: list[str | None], wide: bool, skip: int) -> None:
    array = pa.array(lines, pa.large_string() if wide else pa.string()).slice(skip)
    found = split_words(array)
    expected = [naive(line) for line in lines[skip:]]
    assert found.words.type == pa.string()
    found.words.validate(full=True)
    assert found.words.to_pylist() == [word for words in expected for word in words]
    assert found.counts.tolist() == [len(words) for words in expected]
    parents = [row for row, words in enumerate(expected) for _ in words]
    assert found.parents.tolist() == parents


@given(LINES)
def test_chunks_and_dictionaries_split_alike(lines: list[str | None]) -> None:
    plain = pa.array(lines, pa.string())
    expected = split_words(plain).words
    assert split_words(pa.chunked_array([plain.slice(0, 3), plain.slice(3)])).words == expected
    assert split_words(plain.dictionary_encode()).words == expected


@given(st.lists(st.text(alphabet="ab ", min_size=30, max_size=80), max_size=5))
def test_long_words_are_copied_whole(lines: list[str]) -> None:
    assert split_words(pa.array(lines, pa.string())).words.to_pylist() == [w for x in lines for w in naive(x)]


def test_only_text_is_split() -> None:
    with pytest.raises(ConfigError, match="not a column of type int64"):
        split_words(pa.array([1]))
