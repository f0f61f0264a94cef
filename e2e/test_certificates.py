"""Certificates are lost while a job runs: new workers and old ones can still connect."""

from typing import Any

import pytest

from e2e.rig.reading import SECRETS, read
from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import WordCount
from penstock.contract import pod
from penstock_operator.api.names import authority_name
from tests.integration.kubernetes.kubectl import Refused

STEP_TIMEOUT_S = 120.0
END_TIMEOUT_S = 180.0
LINES_PER_S = 250


def secret(job: WordCount, name: str) -> Any:
    """Give a Secret, or nothing while it does not exist."""
    try:
        return read(job.kubectl, SECRETS, name)
    except Refused:
        return {}


def uid_of(job: WordCount, name: str) -> str:
    return str(secret(job, name).get("metadata", {}).get("uid", ""))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("wordcount", [{"lines": 300_000}], indirect=True)
def test_a_lost_secret_strands_no_joiner_and_restarts_nobody(wordcount: WordCount) -> None:
    wordcount.start(rate=LINES_PER_S)
    wordcount.commits(1, STEP_TIMEOUT_S)
    before = wordcount.lives()
    lost = {name: uid_of(wordcount, name) for name in pod.secret_names("wordcount")}
    wordcount.kubectl("delete", "secret", *lost)
    wordcount.scale(3, STEP_TIMEOUT_S)
    after = wordcount.lives()
    assert {name: after[name] for name in before} == before, "the workers that stay are not restarted"
    for name, uid in lost.items():
        assert uid_of(wordcount, name) not in {"", uid}
    wordcount.commits(2, STEP_TIMEOUT_S)
    wordcount.finish(END_TIMEOUT_S)
    wordcount.check_exact()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("wordcount", [{"lines": 300_000}], indirect=True)
def test_where_the_authority_is_lost_too_the_workers_begin_anew_and_say_why(
    wordcount: WordCount,
) -> None:
    wordcount.start(rate=LINES_PER_S)
    wordcount.commits(1, STEP_TIMEOUT_S)
    before = wordcount.lives()
    name = pod.trust_name("wordcount")
    wordcount.kubectl("delete", "secret", name, authority_name(name))
    wordcount.kubectl("scale", "streamjob", "wordcount", "--replicas=3")
    wait_for("an event", lambda: told(wordcount), STEP_TIMEOUT_S, wordcount.say)
    wait_for("3 workers", lambda: wordcount.runs_on(3), END_TIMEOUT_S, wordcount.say)
    assert not {uid for uid, _ in before.values()} & {u for u, _ in wordcount.lives().values()}
    wordcount.commits(2, STEP_TIMEOUT_S)
    wordcount.finish(END_TIMEOUT_S)
    wordcount.check_exact()


def told(job: WordCount) -> bool:
    return f"{pod.trust_name('wordcount')}-ca were lost" in job.kubectl(
        "get", "events", "--field-selector=reason=CertificatesLost"
    )
