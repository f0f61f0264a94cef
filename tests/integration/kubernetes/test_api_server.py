"""The API server of the tests itself: what the other tests of this folder rely on."""

import pytest

from tests.integration.kubernetes.api_server import ApiServer
from tests.integration.kubernetes.kubectl import Kubectl, Refused


def settings(value: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings"},
        "data": {"colour": value},
    }


def test_an_object_is_validated_and_kept(kubectl: Kubectl) -> None:
    kubectl.apply(settings("green"))
    assert kubectl.get("configmap", "settings")["data"] == {"colour": "green"}
    with pytest.raises(Refused, match=r"\.data\.colour: expected string"):
        kubectl.apply({**settings("green"), "data": {"colour": 7}})


def test_rights_are_enforced(kubectl: Kubectl) -> None:
    stranger = kubectl.impersonating(f"system:serviceaccount:{kubectl.namespace}:stranger")
    with pytest.raises(Refused, match="cannot list resource"):
        stranger.items("configmaps")


def test_namespaces_of_two_tests_are_apart(kubectl: Kubectl) -> None:
    assert kubectl.items("configmaps") == []


def test_a_server_that_was_stopped_keeps_what_it_held(own_api_server: ApiServer) -> None:
    own_api_server.kubectl.apply(settings("red"))
    own_api_server.stop()
    with pytest.raises(Refused, match="refused"):
        own_api_server.kubectl.get("configmap", "settings")
    own_api_server.start()
    assert own_api_server.kubectl.get("configmap", "settings")["data"] == {"colour": "red"}
