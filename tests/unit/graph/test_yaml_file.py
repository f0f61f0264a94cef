"""One file is read as kubectl reads it, or refused with what to do about it."""

import pytest

from penstock.base.errors import ConfigError
from penstock.graph.yaml_file import parse_yaml


@pytest.mark.parametrize(("text", "value"), [("y", True), ("N", False), ("yes", True)])
def test_short_words_are_the_booleans_that_kubectl_reads(text: str, value: bool) -> None:
    assert parse_yaml(f"a: {text}", "job.yaml")[0] == {"a": value}
    assert parse_yaml(f"a: '{text}'", "job.yaml")[0] == {"a": text}


def test_a_key_that_kubectl_would_rename_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"job\.yaml:2: the key n is a boolean: put it in quotes"):
        parse_yaml("m: 1\nn: 2\n", "job.yaml")


@pytest.mark.parametrize("text", ["0123", "1_000", "12:30", "0x10", "+5"])
def test_a_whole_number_that_is_not_written_as_one_is_refused(text: str) -> None:
    """YAML 1.1 reads them as 83, 1000, 750, 16 and 5: a postcode would be another one."""
    with pytest.raises(ConfigError, match=r"job\.yaml:1: YAML reads .* as \d+: write \d+, or put a text in quotes"):
        parse_yaml(f"zip: {text}", "job.yaml")
    assert parse_yaml(f"zip: '{text}'", "job.yaml")[0] == {"zip": text}
