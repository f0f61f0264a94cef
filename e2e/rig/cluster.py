"""A cluster for the tests: kubectl, Helm, images, nodes, and a server that can be paused.

``make cluster-up`` describes the cluster in a file. Another way to make a cluster only has to write
the same file.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.kubernetes.kubectl import Kubectl

COMMAND_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Images:
    """The images that the nodes have.

    ``upgraded`` is the worker's image under another name, ``extras`` a worker with the clients of all connectors.
    """

    worker: str
    upgraded: str
    extras: str
    operator: str
    spark: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster. ``shared_here`` is the folder that nodes have as ``shared_on_nodes``.

    ``host`` is the address at which pods find servers of this machine. Commands about a node get its name as
    the last argument.
    """

    kubeconfig: Path
    kubectl: Kubectl
    programs: Mapping[str, Path]
    images: Images
    kwok_stages: Path
    spark_chart: Path
    shared_on_nodes: str
    shared_here: Path
    host: str
    commands: Mapping[str, Sequence[str]]
    environment: Mapping[str, str]

    def run_helm(self, *arguments: str) -> str:
        """Run Helm and give its output. Raises AssertionError with its error text."""
        return self._run(str(self.programs["helm"]), f"--kubeconfig={self.kubeconfig}", *arguments)

    def stop_node(self, name: str) -> None:
        """Cut a node's power."""
        self._run(*self.commands["stop_node"], name)

    def start_node(self, name: str) -> None:
        """Turn the node's power on again."""
        self._run(*self.commands["start_node"], name)

    def on_node(self, name: str, *command: str) -> str:
        """Run a command on a node, without Kubernetes, and give its output."""
        return self._run(*self.commands["on_node"], name, *command)

    def stop_server(self) -> None:
        """Pause the process of the API server, so that it answers nobody."""
        self._run(*self.commands["stop_server"])

    def start_server(self) -> None:
        """Continue the process of the API server."""
        self._run(*self.commands["start_server"])

    def _run(self, *command: str) -> str:
        done = subprocess.run(
            command,
            env={**os.environ, **{k: v for k, v in self.environment.items() if v}},
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_TIMEOUT_S,
        )
        assert not done.returncode, f"{' '.join(command)}: {done.stderr or done.stdout}"
        return done.stdout


def read_cluster(file: Path) -> Cluster:
    """Read what ``make cluster-up`` wrote. Raises FileNotFoundError."""
    told: dict[str, Any] = json.loads(file.read_text())
    kubeconfig = Path(told["kubeconfig"])
    programs = {name: Path(path) for name, path in told["programs"].items()}
    return Cluster(
        kubeconfig=kubeconfig,
        kubectl=Kubectl(programs["kubectl"], kubeconfig),
        programs=programs,
        images=Images(**told["images"]),
        kwok_stages=Path(told["kwok_stages"]),
        spark_chart=Path(told["spark_chart"]),
        shared_on_nodes=told["shared_on_nodes"],
        shared_here=Path(told["shared_here"]),
        host=told["host"],
        commands=told["commands"],
        environment=told["environment"],
    )
