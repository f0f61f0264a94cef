"""Fixtures: the operator as its own process, with only the rights of its own account."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml

from penstock_operator.api.rights import RIGHTS
from tests.integration.kubernetes.api_server import ApiServer
from tests.integration.kubernetes.kubectl import Kubectl

ROOT = Path(__file__).parents[4]
WAIT_MAX_S, LOOK_EVERY_S = 240.0, 0.2
HOME = "penstock-system"
ACCOUNT = "penstock-operator"


@dataclass(slots=True)
class Running:
    """One operator process; its log is a file."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def waits(self, seconds: float) -> bool:
        """Let some time pass; False if the operator has ended."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds. Raises AssertionError with the log, also at its end."""
        end = time.monotonic() + WAIT_MAX_S
        while time.monotonic() < end:
            began = time.monotonic()
            if holds():
                return
            # A look is some processes: it would take a core from what it waits for.
            if not self.waits(max(LOOK_EVERY_S, 2 * (time.monotonic() - began))):
                break
        raise AssertionError(self.log.read_text()[-4000:])

    def end(self) -> int:
        """Ask it to end, and wait for that."""
        self.process.terminate()
        return self.process.wait(60)

    @property
    def port(self) -> int:
        """Give the port of its probes and metrics when it listens."""
        lines = [json.loads(t) for t in self.log.read_text().splitlines() if '"listening"' in t]
        assert lines, "asked before it listened"
        return int(lines[-1]["port"])

    def page(self, path: str, port: int = 0) -> tuple[int, str]:
        """Give the status and the text of one of its pages, or of a page at another ``port``."""
        with closing(HTTPConnection("127.0.0.1", port or self.port, timeout=10)) as line:
            line.request("GET", path)
            answer = line.getresponse()
            return answer.status, answer.read().decode()

    def kill(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait()


class Start(Protocol):
    """Starts an operator. Another one with the same name takes the Lease over at once.

    ``more`` are additional environment variables.
    """

    def __call__(self, name: str = "", **more: str) -> Running: ...


def settle(server: ApiServer) -> None:
    """Give a server our definitions, and the operator's account with its rights."""
    kubectl = server.kubectl
    kubectl("apply", "-f", str(ROOT / "crds"))
    kubectl("wait", "--for=condition=Established", "-f", str(ROOT / "crds"), "--timeout=30s")
    kubectl("create", "namespace", HOME)
    rules = [{"apiGroups": [r.group], "resources": [r.resource], "verbs": list(r.verbs)} for r in RIGHTS]
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
    manifest = {"apiVersion": "v1", "kind": "List", "items": objects}
    kubectl.in_namespace(HOME)("apply", "-f", "-", stdin=json.dumps(manifest))


@contextmanager
def operators(server: ApiServer, namespace: str, folder: Path) -> Iterator[Start]:
    """Give a function that starts operators for a namespace; all are ended at the end."""
    token = server.kubectl.in_namespace(HOME)("create", "token", ACCOUNT).strip()
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"] = [{"name": "operator", "user": {"token": token}}]
    for context in config["contexts"]:
        context["context"]["user"] = "operator"
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    started: list[Running] = []
    # The operator refuses unknown variables with our prefix, and the tests have one.
    own = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}

    def run(name: str = "", **more: str) -> Running:
        log = folder / f"operator-{len(started)}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "penstock_operator"],
                stdout=out,
                stderr=out,
                env={
                    **own,
                    "KUBECONFIG": str(file),
                    "PENSTOCK_NAMESPACES": namespace,
                    "PENSTOCK_HTTP_PORT": "0",
                    "POD_NAMESPACE": namespace,
                    "POD_NAME": name or f"operator-{len(started)}",
                    "PYTHONPATH": os.pathsep.join([str(ROOT / "worker"), str(ROOT / "operator")]),
                    **more,
                },
            )
        started.append(Running(process, log))
        return started[-1]

    try:
        yield run
    finally:
        for operator in started:
            operator.kill()


@pytest.fixture
def start(home: ApiServer, kubectl: Kubectl, tmp_path: Path) -> Iterator[Start]:
    """Give a function that starts an operator for this test's namespace; the test ends it."""
    with operators(home, kubectl.namespace, tmp_path) as run:
        yield run
