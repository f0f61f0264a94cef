"""kubectl for tests: it takes and gives objects, and raises refusals as errors."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.base.values import replace

REQUEST_TIMEOUT_S = 240  # of a command that waits for something


class Refused(Exception):
    """kubectl ended with an error; the text is what a user reads."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """Access to one cluster: a binary, credentials and a namespace."""

    binary: Path
    kubeconfig: Path
    namespace: str = "default"
    as_user: str = ""

    def in_namespace(self, name: str) -> "Kubectl":
        """Give the same, in another namespace."""
        return replace(self, namespace=name)

    def impersonating(self, user: str) -> "Kubectl":
        """Give the same, asking as ``user`` (``system:serviceaccount:NAMESPACE:NAME``)."""
        return replace(self, as_user=user)

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl and give its output. Raises Refused with its error text."""
        done = self.attempt(*arguments, stdin=stdin)
        if done.returncode:
            raise Refused(done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def attempt(self, *arguments: str, stdin: str | None = None) -> "subprocess.CompletedProcess[str]":
        """Run kubectl and give its exit status and both outputs, whatever they are."""
        return subprocess.run(
            [
                str(self.binary),
                f"--kubeconfig={self.kubeconfig}",
                f"--namespace={self.namespace}",
                *([f"--as={self.as_user}"] if self.as_user else []),
                *arguments,
            ],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=REQUEST_TIMEOUT_S,
        )

    def apply(self, *objects: Any, manager: str = "tests", force: bool = False) -> None:
        """Apply objects (as ``kubectl apply --server-side`` does) in one request each."""
        manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        forced = ["--force-conflicts"] if force else []
        self("apply", "--server-side", f"--field-manager={manager}", *forced, "-f-", stdin=manifest)

    def get(self, kind: str, name: str) -> Any:
        """Give one object as the server stores it. Raises Refused when it does not exist."""
        return json.loads(self("get", kind, name, "-o", "json"))

    def items(self, kind: str, selector: str = "") -> list[Any]:
        """Give all objects of a kind in the namespace that have the labels."""
        found: list[Any] = json.loads(self("get", kind, f"--selector={selector}", "-o", "json"))["items"]
        return found
