"""The API server and the operator of a benchmark: real processes, as in the tests."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.integration.kubernetes.api_server import ApiServer, Programs, running
from tests.integration.kubernetes.binaries import REMEDY, cache
from tests.integration.kubernetes.operator.conftest import ACCOUNT, HOME, ROOT, Running, settle

LISTENS_WITHIN_S = 30.0
NAMES = ("etcd", "kube-apiserver", "kubeadm", "kubectl")


def programs() -> Programs:
    """Find the binaries. Ends the process, with advice, if one is missing."""
    paths = [cache() / "bin" / name for name in NAMES]
    missing = [p.name for p in paths if not os.access(p, os.X_OK)]
    if missing:
        raise SystemExit(f"no {', '.join(missing)}: {REMEDY}")
    return Programs(*paths)


@contextmanager
def served() -> Iterator[ApiServer]:
    """Run an API server with our definitions and the operator's account."""
    with running(programs()) as server:
        settle(server)
        yield server


@contextmanager
def operator(server: ApiServer, folder: Path) -> Iterator[Running]:
    """Run an operator of all namespaces with the rights of its own account."""
    token = server.kubectl.in_namespace(HOME)("create", "token", ACCOUNT).strip()
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"] = [{"name": "operator", "user": {"token": token}}]
    for context in config["contexts"]:
        context["context"]["user"] = "operator"
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    own = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    told = {
        "KUBECONFIG": str(file),
        "PENSTOCK_HTTP_PORT": "0",
        "POD_NAMESPACE": HOME,
        "POD_NAME": "fleet",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "worker"), str(ROOT / "operator")]),
    }
    log = folder / "operator.log"
    with log.open("wb") as out:
        command = [sys.executable, "-m", "penstock_operator"]
        process = subprocess.Popen(command, stdout=out, stderr=out, env={**own, **told})
    found = Running(process, log)
    try:
        _until_it_listens(found)
        yield found
        if not found.waits(0.0):
            raise SystemExit(f"the operator has ended: {log.read_text()[-2000:]}")
    finally:
        found.kill()


def _until_it_listens(found: Running) -> None:
    by = time.monotonic() + LISTENS_WITHIN_S
    while '"listening"' not in found.log.read_text():
        if time.monotonic() > by or not found.waits(0.2):
            raise SystemExit(f"the operator does not listen: {found.log.read_text()[-2000:]}")
