"""A cluster as the tests see it: kubectl, Helm, two images, nodes that can be stopped.

Who made it, and how, is in the file that ``make cluster-up`` writes; another way of making one
only has to write the same.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.integration.kubernetes.kubectl import Kubectl

COMMAND_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster. ``shared_here`` is the folder that nodes have as ``shared_on_nodes``."""

    kubeconfig: Path
    kubectl: Kubectl
    helm: Path
    worker_image: str
    operator_image: str
    shared_on_nodes: str
    shared_here: Path
    stop_node_command: Sequence[str]
    start_node_command: Sequence[str]
    environment: Mapping[str, str]

    def run_helm(self, *arguments: str) -> str:
        """Run Helm and give what it printed. Raises CalledProcessError with its complaint."""
        return self._run(str(self.helm), f"--kubeconfig={self.kubeconfig}", *arguments)

    def stop_node(self, name: str) -> None:
        """Cut a node's power."""
        self._run(*self.stop_node_command, name)

    def start_node(self, name: str) -> None:
        """Give it back."""
        self._run(*self.start_node_command, name)

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
    told = json.loads(file.read_text())
    kubeconfig = Path(told["kubeconfig"])
    return Cluster(
        kubeconfig=kubeconfig,
        kubectl=Kubectl(Path(told["kubectl"]), kubeconfig),
        helm=Path(told["helm"]),
        worker_image=told["worker_image"],
        operator_image=told["operator_image"],
        shared_on_nodes=told["shared_on_nodes"],
        shared_here=Path(told["shared_here"]),
        stop_node_command=told["stop_node"],
        start_node_command=told["start_node"],
        environment=told["environment"],
    )
