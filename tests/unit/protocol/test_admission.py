"""The admission of streams: accepted once, refused with a reason, or held without a reply."""

import pytest

from penstock.base.values import replace
from penstock.contract.ids import (
    Attempt,
    ChannelId,
    Incarnation,
    JobUid,
    Ordinal,
    StageIndex,
    TaskId,
)
from penstock.model.wire import AdmissionVerdict, ChannelHello, LinkHello
from penstock.protocol.channel.admission import Admission

ME, PEER = Ordinal(1), Ordinal(0)
CHANNEL = ChannelId(0, TaskId(StageIndex(0), PEER, 0), TaskId(StageIndex(1), ME, 0))
SCHEMA = b"s" * 32
PEER_LIFE = Incarnation("life-1")
HELLO = ChannelHello(JobUid("job"), Attempt(3), PEER_LIFE, CHANNEL, SCHEMA)
LINK = LinkHello(JobUid("job"), Attempt(3), PEER_LIFE, PEER, ME)


def admitting() -> Admission:
    admission = Admission(JobUid("job"), ME)
    admission.reset(Attempt(3))
    admission.open({PEER: PEER_LIFE}, {CHANNEL: SCHEMA})
    return admission


def test_what_is_expected_is_accepted() -> None:
    admission = admitting()
    assert admission.admit(LINK).verdict is AdmissionVerdict.ACCEPTED
    assert admission.admit(HELLO).verdict is AdmissionVerdict.ACCEPTED


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"job_uid": JobUid("other")}, "this worker runs another job than other"),
        ({"attempt": Attempt(2)}, "attempt 2 is over: this worker is in attempt 3"),
        ({"wire_version": 9}, "wire version 9 is not 2"),
        ({"schema": b"x" * 32}, "all workers must run the same job"),
        (
            {"channel": replace(CHANNEL, receiver=TaskId(StageIndex(1), Ordinal(5), 0))},
            "this is worker 1, not 5",
        ),
    ],
)
def test_a_mismatch_is_refused_with_its_reason(change: dict[str, object], reason: str) -> None:
    decision = admitting().admit(replace(HELLO, **change))  # type: ignore[arg-type]
    assert decision.verdict is AdmissionVerdict.REFUSED
    assert reason in decision.reason


def test_a_broken_stream_is_never_redialled_in_its_attempt() -> None:
    admission = admitting()
    admission.admit(HELLO)
    decision = admission.admit(HELLO)
    assert decision.verdict is AdmissionVerdict.REFUSED
    assert "never redialled" in decision.reason


def test_a_higher_attempt_is_held_until_the_worker_has_reset_itself_and_opened() -> None:
    admission = admitting()
    newer = replace(HELLO, attempt=Attempt(4))
    assert admission.admit(newer).verdict is AdmissionVerdict.HELD
    admission.reset(Attempt(4))
    assert admission.admit(newer).verdict is AdmissionVerdict.HELD
    admission.open({PEER: PEER_LIFE}, {CHANNEL: SCHEMA})
    assert admission.admit(newer).verdict is AdmissionVerdict.ACCEPTED
    assert admission.admit(HELLO).verdict is AdmissionVerdict.REFUSED


def test_what_a_rescale_brings_too_early_is_held() -> None:
    admission = admitting()
    joiner = Ordinal(2)
    channel = replace(CHANNEL, sender=TaskId(StageIndex(0), joiner, 0))
    early = replace(HELLO, channel=channel, incarnation=Incarnation("new"))
    assert admission.admit(early).verdict is AdmissionVerdict.HELD
    admission.extend({joiner: Incarnation("new")}, {channel: SCHEMA})
    assert admission.admit(early).verdict is AdmissionVerdict.ACCEPTED


def test_a_worker_that_comes_back_in_another_life_is_held_until_it_is_known() -> None:
    admission = admitting()
    admission.admit(LINK)
    admission.admit(HELLO)
    reborn = Incarnation("life-2")
    again = replace(HELLO, incarnation=reborn)
    assert admission.admit(again).verdict is AdmissionVerdict.HELD
    admission.forget([PEER], [CHANNEL])
    assert admission.admit(again).verdict is AdmissionVerdict.HELD
    assert admission.admit(HELLO).verdict is AdmissionVerdict.HELD
    admission.extend({PEER: reborn}, {CHANNEL: SCHEMA})
    assert admission.admit(again).verdict is AdmissionVerdict.ACCEPTED
    assert admission.admit(replace(LINK, incarnation=reborn)).verdict is AdmissionVerdict.ACCEPTED
    assert admission.admit(HELLO).verdict is AdmissionVerdict.HELD


def test_an_attempt_never_goes_back() -> None:
    with pytest.raises(AssertionError, match="attempt 2 after 3"):
        admitting().reset(Attempt(2))


def test_a_refusal_does_not_tell_the_uid_that_was_to_be_guessed() -> None:
    secret = JobUid("8d1f0c3a-the-true-one")
    admission = Admission(secret, ME)
    admission.reset(Attempt(3))
    for hello in (HELLO, LINK):
        decision = admission.admit(hello)
        assert decision.verdict is AdmissionVerdict.REFUSED
        assert secret not in decision.reason
        assert str(hello.job_uid) in decision.reason
