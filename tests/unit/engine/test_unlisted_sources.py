"""Since when a source cannot be listed, and why the newest try failed. Both are told until a try succeeds."""

import itertools

import pytest

from penstock.base.errors import ConfigError, StorageError
from penstock.contract.status import UnlistedSource
from penstock.engine.unlisted_sources import UnlistedSources


def tries(sources: UnlistedSources, name: str, error: Exception | None = None) -> tuple[UnlistedSource, ...]:
    if error is None:
        with sources.listing(name):
            pass
    else:
        with pytest.raises(type(error)), sources.listing(name):
            raise error
    return sources.told


def test_a_source_is_told_since_its_first_failed_try_with_the_newest_reason() -> None:
    sources = UnlistedSources(itertools.count(70).__next__)
    assert tries(sources, "a", StorageError("no broker")) == (UnlistedSource("a", "no broker", 70),)
    assert tries(sources, "a", OSError("stale handle")) == (UnlistedSource("a", "stale handle", 70),)
    assert [each.name for each in tries(sources, "b", StorageError("no rights"))] == ["a", "b"]
    assert tries(sources, "a") == (UnlistedSource("b", "no rights", 71),)
    assert tries(sources, "a", StorageError("again"))[1] == UnlistedSource("a", "again", 72)
    sources.clear()
    assert sources.told == ()


def test_an_error_that_fails_the_job_is_not_told_as_one_that_is_tried_again() -> None:
    assert tries(UnlistedSources(lambda: 0), "a", ConfigError("no such column")) == ()
