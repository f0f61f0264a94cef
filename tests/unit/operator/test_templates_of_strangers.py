"""What a pod template of a StreamJob may say, and what it may not."""

import pytest

from penstock.base.errors import ConfigError
from penstock.contract.schema import Plain
from penstock_operator.api.plain import object_at
from penstock_operator.resources.pods import pod_template
from tests.unit.operator.test_pods import target

NO_TEMPLATES: dict[str, Plain] = {
    "a list": [],
    "a list for a pod": {"spec": []},
    "a finalizer": {"metadata": {"finalizers": ["example.com/never"]}},
    "another owner": {"metadata": {"ownerReferences": [{"kind": "Node", "name": "a", "uid": "b"}]}},
    "another namespace": {"metadata": {"namespace": "kube-system"}},
    "another name": {"metadata": {"name": "other"}},
    "labels that are none": {"metadata": {"labels": ["penstock.dev/job"]}},
    "a label of nothing": {"metadata": {"labels": {"penstock.dev/job": None}}},
}


@pytest.mark.parametrize("template", NO_TEMPLATES.values(), ids=NO_TEMPLATES)
def test_a_template_says_nothing_of_a_pod_but_labels_annotations_and_its_spec(
    template: Plain,
) -> None:
    with pytest.raises(ConfigError, match=r"spec\.podTemplate"):
        target(podTemplate=template)


def test_labels_and_annotations_that_find_the_pods_are_not_changed() -> None:
    ours = object_at(pod_template(target()), "metadata")
    forged: Plain = {
        "labels": {**dict.fromkeys(object_at(ours, "labels"), "forged"), "team": "a"},
        "annotations": dict.fromkeys(object_at(ours, "annotations"), "forged"),
    }
    template = target(podTemplate={"metadata": forged})
    found = object_at(pod_template(template), "metadata")
    assert object_at(found, "labels") == {**object_at(ours, "labels"), "team": "a"}
    assert object_at(found, "annotations").keys() == object_at(ours, "annotations").keys()
    assert "forged" not in object_at(found, "annotations").values()


ODD_SPECS: dict[str, Plain] = {
    "no containers": {"containers": None},
    "an object for a list": {"containers": {"name": "engine"}},
    "things that are no containers": {"containers": [1, None, {"name": None}, "engine"]},
    "one container twice": {"containers": [{"name": "engine"}, {"name": "engine"}]},
    "deep": {"affinity": {"a": {"b": {"c": [[[{"d": [None]}]]]}}}},
}


@pytest.mark.parametrize("spec", ODD_SPECS.values(), ids=ODD_SPECS)
def test_what_is_no_pod_is_for_the_api_server_to_refuse(spec: Plain) -> None:
    assert pod_template(target(podTemplate={"spec": spec}))["metadata"]
