import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from penstock.base.errors import ConfigError
from penstock.kubernetes.access import kubeconfig_access, pod_access
from penstock.kubernetes.client import ApiClient
from tests.support.certificates import authority
from tests.unit.kubernetes.small_api import SmallApi


def write(path: Path, server: str, user: Mapping[str, object]) -> dict[str, str]:
    plain = {
        "current-context": "one",
        "contexts": [
            {"name": "one", "context": {"cluster": "c", "user": "u"}},
            {"name": "two", "context": {"cluster": "c", "user": "u", "namespace": "teams"}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(plain))
    return {"KUBECONFIG": str(path)}


def test_a_context_says_the_namespace_and_an_option_goes_before_it(tmp_path: Path) -> None:
    found = write(tmp_path / "config", "https://k", {})
    assert kubeconfig_access(None, None, found).namespace == "default"
    assert kubeconfig_access("two", None, found).namespace == "teams"
    assert kubeconfig_access("two", "mine", found).namespace == "mine"


def test_a_context_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    found = write(tmp_path / "config", "https://k", {})
    with pytest.raises(ConfigError, match="no context 'three'; there are: one, two"):
        kubeconfig_access("three", None, found)


def test_without_a_kubeconfig_the_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no kubeconfig: .*/\.kube/config"):
        kubeconfig_access(None, None, {"HOME": str(tmp_path)})


def test_of_several_files_the_first_to_name_a_thing_counts(tmp_path: Path) -> None:
    write(tmp_path / "a", "https://a", {})
    write(tmp_path / "b", "https://b", {})
    listed = {"KUBECONFIG": f"{tmp_path}/none:{tmp_path}/b:{tmp_path}/a"}
    assert kubeconfig_access(None, None, listed).server == "https://b"


def test_a_plugin_gives_the_token_and_each_request_carries_it(tmp_path: Path, server: SmallApi) -> None:
    reply = json.dumps({"status": {"token": "secret-1"}})
    user = {"exec": {"command": sys.executable, "args": ["-c", f"print({reply!r})"]}}
    access = kubeconfig_access(None, None, write(tmp_path / "config", server.url, user))
    client = ApiClient(access)
    server.make("/a")
    client.get("/a")
    client.close()
    assert server.tokens == ["Bearer secret-1"]


def test_a_plugin_that_fails_is_named(tmp_path: Path) -> None:
    user = {"exec": {"command": "/nowhere/plugin"}}
    with pytest.raises(ConfigError, match="/nowhere/plugin gave no token"):
        kubeconfig_access(None, None, write(tmp_path / "config", "https://k", user))


def test_outside_of_a_pod_the_keeper_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a pod"):
        pod_access({}, tmp_path, "default")
    with pytest.raises(ConfigError, match="projected token"):
        pod_access({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path, "default")


def test_a_token_that_the_kubelet_renews_is_read_for_each_request(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(authority().pem)
    file = tmp_path / "token"
    file.write_text("first\n")
    access = pod_access({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path, "default")
    assert access.token() == "first"
    file.write_text("second\n")
    assert access.token() == "second"
