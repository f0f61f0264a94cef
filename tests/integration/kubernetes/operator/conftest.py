"""The operator as its own process, with the rights of its own account and nothing more."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock_operator.api.rights import RIGHTS
from tests.integration.kubernetes.api_server import ApiServer
from tests.integration.kubernetes.kubectl import Kubectl

ROOT = Path(__file__).parents[4]
LOOKS = 600
LOOK_EVERY_S = 0.2
HOME = "penstock-system"
ACCOUNT = "penstock-operator"


@dataclass(slots=True)
class Running:
    """One operator process; its log is a file."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def waits(self, seconds: float) -> bool:
        """Let time pass as long as it lives; False when it has ended."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def until(self, holds: Callable[[], bool]) -> None:
        """Look until it holds. Raises AssertionError with the log when it does not, or it ended."""
        for _ in range(LOOKS):
            if holds():
                return
            if not self.waits(LOOK_EVERY_S):
                break
        raise AssertionError(self.log.read_text()[-4000:])

    def end(self) -> int:
        """Tell it to end, and wait."""
        self.process.terminate()
        return self.process.wait(60)

    def kill(self) -> None:
        """End it without a word."""
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="session")
def home(api_server: ApiServer) -> ApiServer:
    """Give the shared server with our resources, and the operator's account with its rights."""
    kubectl = api_server.kubectl
    kubectl("apply", "-f", str(ROOT / "crds"))
    kubectl("wait", "--for=condition=Established", "-f", str(ROOT / "crds"), "--timeout=30s")
    kubectl("create", "namespace", HOME)
    rules = [
        {"apiGroups": [r.group], "resources": [r.resource], "verbs": list(r.verbs)} for r in RIGHTS
    ]
    group = "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": HOME}
    objects: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": ACCOUNT, "namespace": HOME},
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": ACCOUNT},
            "rules": rules,
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": ACCOUNT},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": ACCOUNT},
            "subjects": [subject],
        },
    ]
    kubectl.in_namespace(HOME)("apply", "-f", "-", stdin=json.dumps({
        "apiVersion": "v1", "kind": "List", "items": objects
    }))  # fmt: skip
    return api_server


@pytest.fixture
def start(home: ApiServer, kubectl: Kubectl, tmp_path: Path) -> Iterator[Callable[[], Running]]:
    """Give what starts an operator for this test's namespace; all are ended with the test."""
    token = home.kubectl.in_namespace(HOME)("create", "token", ACCOUNT).strip()
    config = yaml.safe_load(home.kubeconfig.read_text())
    config["users"] = [{"name": "operator", "user": {"token": token}}]
    for context in config["contexts"]:
        context["context"]["user"] = "operator"
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    started: list[Running] = []

    def run() -> Running:
        log = tmp_path / f"operator-{len(started)}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "penstock_operator"],
                stdout=out,
                stderr=out,
                env={
                    **os.environ,
                    "KUBECONFIG": str(file),
                    "PENSTOCK_NAMESPACES": kubectl.namespace,
                    "PENSTOCK_HTTP_PORT": "0",
                    "POD_NAMESPACE": kubectl.namespace,
                    "POD_NAME": f"operator-{len(started)}",
                    "PYTHONPATH": os.pathsep.join([str(ROOT / "worker"), str(ROOT / "operator")]),
                },
            )
        started.append(Running(process, log))
        return started[-1]

    yield run
    for operator in started:
        operator.kill()
