"""The chart, rendered by Helm: its objects and rights, which a real API server accepts."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock_operator.api.rights import RIGHTS
from tests.integration.kubernetes.binaries import ROOT, binaries
from tests.integration.kubernetes.kubectl import Kubectl

CHART = ROOT / "charts" / "penstock"
MONITORED = "--api-versions=monitoring.coreos.com/v1"
Rules = set[tuple[str, str, frozenset[str], frozenset[str]]]


class Helm:
    """Renders the chart as the release ``penstock`` of the namespace ``system``."""

    def __init__(self, binary: Path) -> None:
        self._binary = binary

    def __call__(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([self._binary, *arguments], capture_output=True, text=True, check=False)

    def render(self, *options: str) -> list[Any]:
        named = any(option.startswith("--name-template") for option in options)
        command = ["template", *([] if named else ["penstock"]), str(CHART), "--namespace=system"]
        done = self(*command, "--kube-version=1.34.0", *options)
        assert not done.returncode, done.stderr
        return [each for each in yaml.safe_load_all(done.stdout) if each]


@pytest.fixture(scope="module")
def helm() -> Helm:
    return Helm(binaries("helm")[0])


def of_kind(objects: list[Any], kind: str) -> list[Any]:
    return [each for each in objects if each["kind"] == kind]


def one(objects: list[Any], kind: str, name: str) -> Any:
    (found,) = [each for each in of_kind(objects, kind) if each["metadata"]["name"] == name]
    return found


def rules_of(role: Any) -> Rules:
    return {
        (group, resource, frozenset(rule["verbs"]), frozenset(rule.get("resourceNames", [])))
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def rights(*, own: bool) -> Rules:
    return {(each.group, each.resource, frozenset(each.verbs), frozenset()) for each in RIGHTS if each.own is own}


def test_lint_finds_nothing(helm: Helm) -> None:
    done = helm("lint", "--strict", str(CHART))
    assert not done.returncode, done.stdout


def test_a_cluster_wide_operator_has_the_rights_of_the_table_and_no_more(helm: Helm) -> None:
    objects = helm.render()
    assert rules_of(one(objects, "ClusterRole", "penstock")) == rights(own=False)
    (binding,) = of_kind(objects, "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == "penstock"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "penstock", "namespace": "system"}]


def test_an_operator_of_two_namespaces_has_no_right_elsewhere(helm: Helm) -> None:
    objects = helm.render("--set=watchNamespaces={blue,green}")
    assert of_kind(objects, "ClusterRoleBinding") == []
    roles = {r["metadata"]["namespace"]: r for r in of_kind(objects, "Role")}
    assert set(roles) == {"blue", "green", "system"}
    assert rules_of(roles["blue"]) == rules_of(roles["green"]) == rights(own=False)
    leases = rules_of(roles["system"]) - rights(own=True)
    assert {resource for _, resource, _, _ in leases} == {"leases"}
    (deployment,) = of_kind(objects, "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert {"name": "PENSTOCK_NAMESPACES", "value": "blue,green"} in container["env"]


def test_two_releases_in_one_namespace_have_a_lease_each(helm: Helm) -> None:
    names = []
    for release in ("penstock", "blue"):
        objects = helm.render(f"--name-template={release}", "--set=watchNamespaces={blue}")
        (deployment,) = of_kind(objects, "Deployment")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        (name,) = [each["value"] for each in container["env"] if each["name"] == "LEASE_NAME"]
        (role,) = [r for r in of_kind(objects, "Role") if r["metadata"]["name"].endswith("-lease")]
        ((*_, named),) = [rule for rule in rules_of(role) if rule[3]]
        assert named == {name}
        names.append(name)
    assert names == ["penstock-operator", "blue-penstock-operator"]


def test_no_rule_grants_everything(helm: Helm) -> None:
    for role in [*of_kind(helm.render(), "ClusterRole"), *of_kind(helm.render(), "Role")]:
        assert "*" not in str(role["rules"])


def test_monitoring_is_made_where_its_api_exists(helm: Helm) -> None:
    kinds = {"ServiceMonitor", "PrometheusRule"}
    assert not kinds & {each["kind"] for each in helm.render()}
    assert kinds <= {each["kind"] for each in helm.render(MONITORED)}
    off = helm.render(MONITORED, "--set=monitoring.enabled=false")
    assert not kinds & {each["kind"] for each in off}


def test_two_operators_have_a_disruption_budget(helm: Helm) -> None:
    assert of_kind(helm.render(), "PodDisruptionBudget") == []
    assert len(of_kind(helm.render("--set=replicas=2"), "PodDisruptionBudget")) == 1


def test_a_digest_wins_over_a_tag(helm: Helm) -> None:
    digest = "sha256:" + "0" * 64
    (deployment,) = of_kind(helm.render(f"--set=image.digest={digest}"), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"penstock-operator@{digest}"


@pytest.mark.parametrize(
    "wrong",
    ["replicas=many", "replicas=9", "image.pullPolicy=Sometimes", "unknown=1", "image.digest=x"],
)
def test_a_wrong_value_is_refused(helm: Helm, wrong: str) -> None:
    done = helm("template", "penstock", str(CHART), "--kube-version=1.34.0", "--set", wrong)
    assert done.returncode
    assert wrong.partition("=")[0].rpartition(".")[2] in done.stderr


def test_the_server_takes_every_object_and_a_restricted_namespace_the_pod(helm: Helm, kubectl: Kubectl) -> None:
    here = kubectl.namespace
    enforce = "pod-security.kubernetes.io/enforce=restricted"
    kubectl("label", "namespace", here, enforce)
    objects = helm.render(f"--namespace={here}")
    for each in objects:
        each["metadata"]["name"] += f"-{here}"  # objects of the cluster are shared by all tests
    kubectl.apply(*objects)
    (deployment,) = of_kind(objects, "Deployment")
    template = deployment["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    kubectl.apply({**pod, "metadata": {**template["metadata"], "name": "operator"}})


def test_the_account_of_the_operator_has_the_rights_of_the_table(helm: Helm, kubectl: Kubectl) -> None:
    here = kubectl.namespace
    kubectl.apply(*helm.render(f"--namespace={here}", f"--set=watchNamespaces={{{here}}}"))
    operator = kubectl.impersonating(f"system:serviceaccount:{here}:penstock")
    assert "no" in operator.attempt("auth", "can-i", "list", "secrets").stdout
    assert "yes" in operator("auth", "can-i", "create", "statefulsets.apps")
    assert "no" in operator.attempt("auth", "can-i", "delete", "statefulsets.apps").stdout
    elsewhere = operator.in_namespace("default")
    assert "no" in elsewhere.attempt("auth", "can-i", "get", "streamjobs.penstock.dev").stdout
