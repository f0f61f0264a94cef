"""A cluster as the tests see it: kubectl, Helm, images, nodes and a server that can be stopped.

Who made it, and how, is in the file that ``make cluster-up`` writes; another way of making one
only has to write the same.
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
    """What the nodes have: ``upgraded`` is the worker's under another name."""

    worker: str
    upgraded: str
    operator: str
    spark: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster. ``shared_here`` is the folder that nodes have as ``shared_on_nodes``.

    ``commands`` end with the name of a node where they are about one.
    """

    kubeconfig: Path
    kubectl: Kubectl
    programs: Mapping[str, Path]
    images: Images
    kwok_stages: Path
    spark_chart: Path
    shared_on_nodes: str
    shared_here: Path
    commands: Mapping[str, Sequence[str]]
    environment: Mapping[str, str]

    def run_helm(self, *arguments: str) -> str:
        """Run Helm and give what it printed. Raises AssertionError with its complaint."""
        return self._run(str(self.programs["helm"]), f"--kubeconfig={self.kubeconfig}", *arguments)

    def stop_node(self, name: str) -> None:
        """Cut a node's power."""
        self._run(*self.commands["stop_node"], name)

    def start_node(self, name: str) -> None:
        """Give it back."""
        self._run(*self.commands["start_node"], name)

    def on_node(self, name: str, *command: str) -> str:
        """Run a command on a node, beside Kubernetes, and give what it printed."""
        return self._run(*self.commands["on_node"], name, *command)

    def stop_server(self) -> None:
        """Have the API server answer nobody: its process stands still."""
        self._run(*self.commands["stop_server"])

    def start_server(self) -> None:
        """Let it go on."""
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
        commands=told["commands"],
        environment=told["environment"],
    )
