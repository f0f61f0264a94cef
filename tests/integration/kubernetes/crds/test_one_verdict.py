"""The reader and the API server agree on every object, because one file runs in both places."""

from typing import Any

from hypothesis import HealthCheck, given, settings

from tests.integration.kubernetes.crds.drawn import drawn_jobs, drawn_snapshots
from tests.integration.kubernetes.crds.judge import Judge
from tests.integration.kubernetes.crds.test_refusals import reader_refusal

agreement = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def check(judge: Judge, plain: Any) -> None:
    server, reader = judge.refusal(plain), reader_refusal(plain)
    assert (server is None) == (reader is None), f"server: {server}\nreader: {reader}"


@agreement
@given(plain=drawn_jobs())
def test_both_agree_on_every_job(judge: Judge, plain: Any) -> None:
    check(judge, plain)


@agreement
@given(plain=drawn_snapshots())
def test_both_agree_on_every_snapshot(judge: Judge, plain: Any) -> None:
    check(judge, plain)
