"""Foreign objects under names of a job: reported, left alone, and no worker starts beside them."""

import pytest

from penstock.base.values import replace
from penstock.contract import pod
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.latest import Retained
from penstock.contract.manifest import BlobRef
from penstock.contract.schema import Plain
from penstock.contract.streamjob_status import Condition, ConditionType
from penstock_operator.api import names
from penstock_operator.api.names import job_of
from penstock_operator.api.observed import Child, ChildKey, Observed, TrustView
from penstock_operator.api.plain import text_at, whole_at
from penstock_operator.reconcile.actions import (
    Action,
    Apply,
    Archive,
    Create,
    Delete,
    WriteAuthority,
    WriteCertificates,
    WriteDesired,
)
from penstock_operator.reconcile.children import foreign_objects
from penstock_operator.reconcile.decide import decide
from penstock_operator.resources.spark_application import replay_name
from tests.unit.operator.observing import OWNER, down, running, spec_of, target_for

SPEC = spec_of()
TARGET = target_for(SPEC)
NO_SECRETS = {name: TrustView() for name in pod.secret_names("wc")}
NOBODYS = Child("their-uid", "", "")
EARLIER = Child("old-uid", "uid-of-before", "", owner="StreamJob wc")
WANTED = (
    ChildKey("ConfigMap", TARGET.config),
    ChildKey("ConfigMap", pod.desired_name("wc")),
    ChildKey("ConfigMap", pod.latest_name("wc")),
    ChildKey("ConfigMap", pod.status_name("wc")),
    ChildKey("Lease", pod.lease_name("wc")),
    ChildKey("NetworkPolicy", pod.workers_name("wc")),
    ChildKey("PodDisruptionBudget", pod.workers_name("wc")),
    ChildKey("Role", names.keeper_account("wc")),
    ChildKey("RoleBinding", names.keeper_account("wc")),
    *(ChildKey("Secret", name) for name in names.trust_secrets("wc")),
    ChildKey("Service", names.metrics_service("wc")),
    ChildKey("Service", pod.service_name("wc")),
    ChildKey("ServiceAccount", names.keeper_account("wc")),
    ChildKey("StatefulSet", pod.workers_name("wc")),
)


def new(key: ChildKey, child: Child) -> Observed:
    """Observe a job without children, and a foreign object under one of its names."""
    seen = running(SPEC)
    return replace(
        seen,
        stateful_set=None,
        pods=(),
        latest=None,
        desired=None,
        configs={},
        children={key: child},
        trust=NO_SECRETS,
    )


def settled(seen: Observed) -> tuple[Observed, list[Action]]:
    """Decide until the operation is in the status; return the actions after that."""
    decided = decide(seen)
    if decided.status_first:
        assert decided.status is not None
        seen = replace(seen, job=replace(seen.job, status=decided.status))
        decided = decide(seen)
    if decided.status is not None:
        seen = replace(seen, job=replace(seen.job, status=decided.status))
    return seen, list(decided.actions)


def stalled(seen: Observed) -> Condition:
    found = seen.job.status.condition(ConditionType.STALLED)
    assert found is not None
    return found


def touched(action: Action) -> ChildKey | None:
    """Return the object that an action would write or delete, if the action names one."""
    match action:
        case Apply(manifest) | Create(manifest):
            return ChildKey(text_at(manifest, "kind"), text_at(manifest, "metadata", "name"))
        case Delete(kind, name):
            return ChildKey(kind, name)
        case WriteDesired():
            return ChildKey("ConfigMap", pod.desired_name("wc"))
        case WriteAuthority(secret):
            return ChildKey("Secret", names.authority_name(secret))
        case WriteCertificates(secret):
            return ChildKey("Secret", secret)
        case _:
            return None


@pytest.mark.parametrize("key", WANTED, ids=lambda key: f"{key.kind}-{key.name}")
def test_a_job_does_not_begin_beside_an_object_of_another(key: ChildKey) -> None:
    seen, actions = settled(new(key, replace(NOBODYS, owner="Deployment web")))
    assert [a for a in actions if touched(a) is not None] == []
    judged = stalled(seen)
    assert (judged.status, judged.reason) == ("True", "NameTaken")
    assert f"{key.kind} {key.name} (of Deployment web)" in judged.message
    _, again = settled(replace(seen, children={}))
    assert [a for a in again if touched(a) is not None] != []


# The record in -latest names its job, so one that was restored without labels is the job's.
BESIDE = [k for k in WANTED if k.kind != "StatefulSet" and k.name != pod.latest_name("wc")]


@pytest.mark.parametrize("key", BESIDE, ids=lambda key: f"{key.kind}-{key.name}")
def test_a_job_that_runs_goes_on_and_touches_it_never(key: ChildKey) -> None:
    seen = replace(running(SPEC), children={key: NOBODYS}, refresh=True, trust=NO_SECRETS)
    seen, actions = settled(seen)
    assert stalled(seen).reason == "NameTaken"
    assert key not in [touched(a) for a in actions]
    seen = replace(down(seen), job=replace(seen.job, status=seen.job.status))
    seen, actions = settled(seen)
    made = [a.manifest for a in actions if isinstance(a, Apply | Create)]
    assert not any(whole_at(m, "spec", "replicas") for m in made)  # no worker starts beside it


def test_what_an_earlier_job_left_is_waited_for_where_somebody_collects_it() -> None:
    key = ChildKey("Service", pod.service_name("wc"))
    waits, _ = settled(new(key, EARLIER))
    assert stalled(waits).reason == "NotStalled"
    stuck, _ = settled(new(key, replace(EARLIER, owner="")))
    assert stalled(stuck).reason == "NameTaken"


def test_a_claim_of_another_is_not_used_in_place_of_the_one_that_was_asked_for() -> None:
    spec = spec_of(checkpoint={"volume": {"claimTemplate": {}}})
    key = ChildKey("PersistentVolumeClaim", names.claim_name("wc"))
    seen = replace(running(spec), children={key: NOBODYS})
    assert foreign_objects(seen, target_for(spec)) == ()  # workers use it already
    assert foreign_objects(replace(seen, stateful_set=None), target_for(spec)) == (key,)
    earlier = replace(seen, stateful_set=None, children={key: replace(EARLIER, owner="")})
    assert foreign_objects(earlier, target_for(spec)) == ()  # a claim outlives its job


def test_views_replays_and_archives_are_looked_at_too() -> None:
    seen = running(SPEC)
    assert seen.latest is not None
    assert seen.latest.value is not None
    kept = Retained(Epoch(7), BlobRef(BlobName("root.json"), "", 1))
    value = replace(seen.latest.value, retained=(kept,))
    view = ChildKey("ConfigMap", pod.epoch_name("wc", 7))
    seen = replace(seen, latest=replace(seen.latest, value=value), children={view: NOBODYS})
    assert foreign_objects(seen, TARGET) == (view,)
    other = ChildKey("ConfigMap", pod.epoch_name("wc", 6))
    _, actions = settled(replace(seen, children={other: NOBODYS}))
    assert other not in [touched(a) for a in actions]

    replayed = target_for(spec_of(replay={"dataset": "d", "image": "i"}))
    spark = ChildKey("SparkApplication", replay_name(replayed))
    seen = replace(running(SPEC), children={spark: NOBODYS})
    assert foreign_objects(seen, replayed) == (spark,)

    before = replace(value, job_uid=type(value.job_uid)("uid-of-before"))
    archive = ChildKey("ConfigMap", names.archive_name("wc", "uid-of-before"))
    seen = new(archive, NOBODYS)
    seen = replace(seen, latest=running(SPEC).latest)
    assert seen.latest is not None
    seen = replace(seen, latest=replace(seen.latest, value=before))
    _, actions = settled(seen)
    assert not [a for a in actions if isinstance(a, Archive)]
    _, actions = settled(replace(seen, children={}))
    assert [a for a in actions if isinstance(a, Archive)]


@pytest.mark.parametrize(
    ("kind", "controller", "label", "job"),
    [
        ("Service", "StreamJob", "", OWNER.uid),
        ("Service", "StreamJob", "of another", OWNER.uid),
        ("Service", "Deployment", OWNER.uid, ""),
        ("Service", "", OWNER.uid, OWNER.uid),
        ("Service", "", "", ""),
        ("Pod", "StatefulSet", OWNER.uid, OWNER.uid),
    ],
)
def test_the_uid_of_the_controller_says_whose_an_object_is(kind: str, controller: str, label: str, job: str) -> None:
    reference: Plain = {
        "apiVersion": "penstock.dev/v1alpha1" if controller == "StreamJob" else "apps/v1",
        "kind": controller,
        "name": "wc",
        "uid": OWNER.uid,
        "controller": True,
    }
    metadata: dict[str, Plain] = {"name": "x", "labels": {pod.LABEL_JOB_UID: label}}
    if controller:
        metadata["ownerReferences"] = [reference]
    assert job_of({"kind": kind, "metadata": metadata}) == job
