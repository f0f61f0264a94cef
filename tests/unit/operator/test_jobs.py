"""The Kubernetes Jobs that remove or look at files run where workers may run, as the same user, and not for ever."""

import pytest

from penstock_operator.api.folders import Folder
from penstock_operator.api.plain import Object, list_at, object_at, whole_at
from penstock_operator.resources.jobs import REMOVAL_LIFE_S, disposal_job, look_job, purge_job
from tests.unit.operator.observing import spec_of, target_for

USERS_POD: Object = {
    "securityContext": {"runAsUser": 1000, "fsGroup": 2000},
    "tolerations": [{"key": "streams", "operator": "Exists"}],
    "nodeSelector": {"pool": "streams"},
    "imagePullSecrets": [{"name": "registry"}],
    "terminationGracePeriodSeconds": 7,
    "containers": [{"name": "engine", "image": "another"}],
}
TARGET = target_for(spec_of(podTemplate={"spec": USERS_POD}))


def jobs() -> tuple[Object, ...]:
    folder = Folder("apps", "wc", "savepoints/monday")
    return purge_job(TARGET), disposal_job(TARGET, "monday", "snapshot-uid"), look_job(TARGET, folder, "uid", 60.0)


@pytest.mark.parametrize("job", jobs())
def test_its_pod_is_like_those_of_the_workers_where_it_has_to_be(job: Object) -> None:
    pod = object_at(job, "spec", "template", "spec")
    for name in ("tolerations", "nodeSelector", "imagePullSecrets"):
        assert pod[name] == USERS_POD[name]
    confined = object_at(pod, "securityContext")
    assert (confined["runAsUser"], confined["fsGroup"], confined["runAsNonRoot"]) == (1000, 2000, True)
    (only,) = list_at(pod, "containers")
    assert object_at(only)["image"] == TARGET.spec.image
    assert "terminationGracePeriodSeconds" not in pod


@pytest.mark.parametrize("job", jobs())
def test_a_quota_of_the_namespace_takes_it_and_it_ends(job: Object) -> None:
    (only,) = list_at(job, "spec", "template", "spec", "containers")
    assert {"cpu", "memory"} <= object_at(only, "resources", "requests").keys()
    assert object_at(only, "resources", "limits").keys() == {"memory"}
    assert 0 < whole_at(job, "spec", "activeDeadlineSeconds") <= REMOVAL_LIFE_S
