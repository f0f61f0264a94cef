"""When a certificate is signed again, when an authority is replaced, and what is done when one is lost."""

from dataclasses import dataclass

import pytest

from penstock.base.values import replace
from penstock.contract import pod
from penstock.contract.streamjob_status import ConditionType, Reason
from penstock_operator.api import names
from penstock_operator.api.observed import Observed, TrustView
from penstock_operator.api.plain import Object, text_at
from penstock_operator.api.views import set_view, trust_view
from penstock_operator.reconcile import certificates as trust
from penstock_operator.reconcile.actions import Scale, WriteAuthority, WriteCertificates
from penstock_operator.reconcile.certificates import DAY_S, trust_steps
from penstock_operator.reconcile.decide import decide
from sim.operator_world.secrets_model import written
from tests.unit.operator.observing import NOW_S, running, spec_of

SECRET = pod.trust_name("wc")
OTHER = pod.control_name("wc")
HOUR_S = 3600.0


@dataclass
class Cluster:
    """Both Secrets of one kind, what a worker has of them, and a clock."""

    now: float = NOW_S
    mounted: Object | None = None
    authority: Object | None = None
    writes: int = 0

    def view(self) -> TrustView:
        return trust_view(self.authority, self.mounted)

    def reconcile(self, line: int = 1) -> list[WriteAuthority | WriteCertificates]:
        steps = trust_steps(SECRET, self.view(), line, self.now)
        for step in steps:
            made = written(step, self.mounted, self.authority, self.now)
            self.writes += 1
            made = {**made, "metadata": {**as_object(made["metadata"]), "resourceVersion": "1"}}
            if isinstance(step, WriteAuthority):
                self.authority = made
            else:
                self.mounted = made
        assert not trust_steps(SECRET, self.view(), line, self.now), "one reconcile is enough"
        return list(steps)

    def after(self, days: float) -> "Cluster":
        self.now += days * DAY_S
        return self

    def believed(self) -> set[str]:
        view = self.view().certificates
        assert view is not None
        return {root.name for root in view.roots}

    def shown(self) -> str:
        view = self.view().certificates
        assert view is not None
        assert view.leaf is not None
        assert view.leaf.begins < self.now < view.leaf.ends
        return view.leaf.issuer


def as_object(plain: object) -> Object:
    assert isinstance(plain, dict)
    return plain


def begun() -> Cluster:
    made = Cluster()
    made.reconcile()
    return made


def test_a_new_job_gets_an_authority_and_a_certificate_and_then_nothing_for_long() -> None:
    cluster = begun()
    assert cluster.writes == 2
    assert cluster.believed() == {cluster.shown()}
    assert cluster.after(59).reconcile() == []


def test_a_certificate_is_signed_anew_at_two_thirds_of_its_life_by_the_same_authority() -> None:
    cluster = begun()
    before = cluster.shown()
    assert cluster.after(59.9).reconcile() == []
    (step,) = cluster.after(0.2).reconcile()
    assert isinstance(step, WriteCertificates)
    assert step.signer == before == cluster.shown()


def test_a_new_authority_is_believed_first_signs_later_and_outlives_the_old_one() -> None:
    cluster = begun()
    old = cluster.shown()
    # A day before two thirds of 730 days: the certificate of then is not due with the authority.
    for _ in range(9):
        cluster.after(54).reconcile()
    kept = cluster.after(1).reconcile()
    assert [type(s) for s in kept] == [WriteAuthority, WriteCertificates]
    assert cluster.shown() == old
    new = (cluster.believed() - {old}).pop()
    assert cluster.after(1.1).reconcile(), "the old authority's key is dropped a day later"
    view = cluster.view().authority
    assert view is not None
    assert [r.name for r in view.roots if r.signs] == [new]
    assert cluster.shown() == old, "its certificate is good, and stays until it is due"
    cluster.after(60).reconcile()
    assert cluster.shown() == new
    assert cluster.believed() == {old, new}
    while cluster.now < NOW_S + 730 * DAY_S:
        cluster.after(10).reconcile()
    assert old not in cluster.believed()


def test_for_twenty_years_two_workers_a_day_apart_understand_each_other() -> None:
    """Each worker has files up to a day old; every certificate of one is trusted by the other."""
    cluster = begun()
    held = [(cluster.now, cluster.shown(), cluster.believed())]
    while cluster.now < NOW_S + 20 * 365 * DAY_S:
        cluster.after(0.25).reconcile()
        held.append((cluster.now, cluster.shown(), cluster.believed()))
        held = [h for h in held if h[0] >= cluster.now - DAY_S]
        for _, shown, _ in held:
            for _, _, believed in held:
                assert shown in believed
    assert cluster.writes < 20 * 10, "and it is written a few times a year"


@pytest.mark.parametrize("days", [0.5, 30, 480, 500, 600, 725])
def test_a_lost_secret_is_signed_by_an_authority_that_workers_believe(days: float) -> None:
    cluster = begun()
    for _ in range(int(days * 2)):
        cluster.after(0.5).reconcile()
    believed, key = cluster.believed(), text_at(cluster.mounted, "key")
    cluster.mounted = None
    cluster.reconcile()
    assert cluster.shown() in believed
    assert cluster.believed() == believed
    assert text_at(cluster.mounted, "key") == key, "tokens go on to be understood"


@pytest.mark.parametrize("days", [0.5, 30, 500])
def test_a_lost_authority_is_followed_by_one_that_workers_hear_of_first(days: float) -> None:
    cluster = begun()
    for _ in range(int(days * 2)):
        cluster.after(0.5).reconcile()
    shown, believed, key = cluster.shown(), cluster.believed(), text_at(cluster.mounted, "key")
    cluster.authority = None
    cluster.reconcile()
    assert cluster.shown() == shown, "nobody shows what others do not believe yet"
    assert cluster.believed() > believed
    assert text_at(cluster.authority, "key") == key
    for _ in range(400):
        cluster.after(0.25).reconcile()
    assert cluster.shown() not in believed


def test_when_the_authority_is_lost_and_then_the_certificates_the_youngest_signs() -> None:
    cluster = begun()
    cluster.authority = None
    cluster.reconcile()
    believed = cluster.believed()
    cluster.after(0.1).mounted = None
    cluster.reconcile()
    assert cluster.shown() in believed, "workers heard of it two minutes after it was made"
    assert cluster.believed() == believed


def test_what_cannot_be_read_is_made_again() -> None:
    cluster = begun()
    believed = cluster.believed()
    assert cluster.mounted is not None
    assert cluster.authority is not None
    cluster.mounted["trust"] = {"roots": [], "leaf": {}}
    (step,) = cluster.reconcile()
    assert isinstance(step, WriteCertificates)
    assert step.signer in believed
    cluster.after(0.1)
    cluster.authority["trust"] = {"roots": []}
    assert [type(s) for s in cluster.reconcile()] == [WriteAuthority, WriteCertificates]
    assert cluster.believed() > believed, "what workers believe is kept though its key is gone"


# --- In a whole decision ----------------------------------------------------------------------


def seen_with(**secrets: TrustView) -> Observed:
    given = {SECRET: secrets.get("tls"), OTHER: secrets.get("control")}
    whole = begun().view()
    seen = replace(running(spec_of()), trust={n: v or whole for n, v in given.items()})
    return settled(seen)


def settled(seen: Observed) -> Observed:
    assert seen.stateful_set is not None
    return replace(seen, stateful_set=replace(seen.stateful_set, line=1))


def written_secrets(seen: Observed) -> list[tuple[str, int]]:
    return [
        (a.secret if isinstance(a, WriteCertificates) else names.authority_name(a.secret), a.line)
        for a in decide(seen).actions
        if isinstance(a, WriteAuthority | WriteCertificates)
    ]


def test_nothing_is_decided_of_secrets_that_were_not_read() -> None:
    assert written_secrets(replace(seen_with(), trust=None)) == []
    assert written_secrets(seen_with()) == []


def test_without_mtls_there_are_no_certificates() -> None:
    seen = running(spec_of(security={"mtls": False}))
    assert written_secrets(replace(seen, trust={SECRET: TrustView(), OTHER: TrustView()})) == []


def test_a_lost_secret_is_mended_while_the_job_goes_on() -> None:
    whole = begun().view()
    seen = seen_with(tls=replace(whole, certificates=None))
    assert written_secrets(seen) == [(SECRET, 1)]
    decided = decide(seen)
    assert not any(isinstance(a, Scale) for a in decided.actions)
    (event,) = [e for e in decided.events if e.reason == trust.RENEWED]
    assert SECRET in event.message
    assert "the same authority" in event.message


def test_when_both_are_lost_all_workers_start_again_and_the_condition_says_why() -> None:
    seen = seen_with(control=TrustView())
    first = decide(seen)
    assert first.status is not None
    assert first.status.pending is not None
    assert [e.warning for e in first.events if e.reason == trust.LOST] == [True]
    assert first.status.pending.action == Reason.RESTARTING
    progressing = first.status.condition(ConditionType.PROGRESSING)
    assert progressing is not None
    assert progressing.reason == Reason.RESTARTING
    assert f"{OTHER} and {OTHER}-ca were lost" in progressing.message

    seen = replace(seen, job=replace(seen.job, status=first.status))
    assert written_secrets(seen) == [(f"{OTHER}-ca", 2), (OTHER, 2)]
    decided = decide(seen)
    assert [a.replicas for a in decided.actions if isinstance(a, Scale)] == [0]

    # The Secrets exist again, and the earlier workers still run: they are ended all the same.
    made = Cluster()
    made.reconcile(line=2)
    seen = replace(seen, trust={**(seen.trust or {}), OTHER: made.view()})
    assert [a.replicas for a in decide(seen).actions if isinstance(a, Scale)] == [0]
    assert written_secrets(seen) == []
    # Workers of the new line are left alone.
    assert seen.stateful_set is not None
    seen = replace(seen, stateful_set=replace(seen.stateful_set, line=2))
    assert not any(isinstance(a, Scale) for a in decide(seen).actions)


def test_a_set_that_an_older_operator_made_is_not_taken_for_cut_off() -> None:
    seen = seen_with()
    assert seen.stateful_set is not None
    seen = replace(seen, stateful_set=replace(seen.stateful_set, line=0))
    assert not any(isinstance(a, Scale) for a in decide(seen).actions)


def test_mtls_that_is_turned_on_is_a_change_of_the_spec_and_no_loss() -> None:
    seen = running(spec_of(security={"mtls": False}), wanted=spec_of())
    seen = settled(replace(seen, trust={SECRET: TrustView(), OTHER: TrustView()}))
    decided = decide(seen)
    assert [e.reason for e in decided.events if e.reason == trust.LOST] == []
    assert decided.status is not None
    progressing = decided.status.condition(ConditionType.PROGRESSING)
    assert progressing is not None
    assert progressing.reason == Reason.UPGRADING
    assert "lost" not in progressing.message


@pytest.mark.parametrize("text", ["9" * 5000, "-1", "0x1", "\u0662", ""])
def test_a_line_that_is_no_number_of_ours_is_the_first(text: str) -> None:
    mark: Object = {"metadata": {"annotations": {names.ANNOTATION_LINE: text}}}
    view = trust_view(mark, mark)
    assert view.authority is not None
    assert view.certificates is not None
    assert (view.authority.line, view.certificates.line) == (1, 1)
    assert set_view(mark).line == 0
