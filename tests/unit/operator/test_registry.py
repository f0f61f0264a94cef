"""Kopf's settings: every rare kind is watched and indexed, in pages, with bounded waits."""

import kopf

from penstock_operator.api import kinds
from penstock_operator.handlers.registry import PAGE, WATCHED, configure, place_of_kind


def test_kopf_lists_in_pages_and_its_tries_end() -> None:
    settings = kopf.OperatorSettings()
    configure(settings)
    assert settings.watching.chunk_size == PAGE
    backoffs = settings.networking.error_backoffs
    assert not isinstance(backoffs, float | int)
    waits = list(backoffs)
    assert 30 < sum(waits) < 300, "a right that is missing ends the process, and is seen"
    assert settings.peering.standalone
    assert not settings.posting.enabled


def test_every_kind_of_a_job_is_watched_by_kopf_or_by_us() -> None:
    ours = {kinds.CONFIG_MAP, kinds.LEASE}
    assert {*WATCHED, *ours} == {
        *kinds.CHILDREN,
        kinds.STREAM_JOB,
        kinds.STREAM_SNAPSHOT,
        kinds.CLAIM,
    }
    assert not ours & set(WATCHED)
    assert place_of_kind(kinds.POD) == ("v1", "pods")
    assert place_of_kind(kinds.BUDGET) == ("policy", "v1", "poddisruptionbudgets")


def test_kopf_compares_nothing_and_keeps_nothing_on_an_object() -> None:
    settings = kopf.OperatorSettings()
    configure(settings)
    storage = settings.persistence.diffbase_storage
    body = kopf.Body({"metadata": {"name": "wc", "labels": {"a": "b"}}, "spec": {"replicas": 2}})
    built, patch = storage.build(body=body), kopf.Patch()
    storage.store(body=body, patch=patch, essence=built)
    assert not built
    assert storage.fetch(body=body) is None
    assert not patch
