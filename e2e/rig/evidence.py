"""Evidence of a failed test: objects, events and logs, as files in one folder."""

import subprocess
from pathlib import Path

from tests.integration.kubernetes.kubectl import Kubectl

OBJECTS = "streamjobs,streamsnapshots,statefulsets,pods,configmaps,leases,persistentvolumeclaims,jobs"
LOG_LINES = 2000


def collect(kubectl: Kubectl, folder: Path) -> None:
    """Write everything about the namespace. If something cannot be read, its file says so."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "events.txt").write_text(_said(kubectl, "get", "events", "--sort-by=.lastTimestamp"))
    (folder / "objects.yaml").write_text(_said(kubectl, "get", OBJECTS, "-o", "yaml"))
    (folder / "describe.txt").write_text(_said(kubectl, "describe", "streamjobs,pods"))
    names = _said(kubectl, "get", "pods", "-o", "name").split()
    for name in (name for name in names if name.startswith("pod/")):
        for file, option in (("log", []), ("previous", ["--previous"])):
            text = _said(
                kubectl,
                "logs",
                name,
                "--all-containers",
                "--prefix",
                f"--tail={LOG_LINES}",
                *option,
            )
            (folder / f"{name.removeprefix('pod/')}.{file}").write_text(text)


def _said(kubectl: Kubectl, *arguments: str) -> str:
    try:
        done = kubectl.attempt(*arguments)
    except subprocess.TimeoutExpired as late:
        return f"{late}\n"
    return done.stdout + done.stderr
