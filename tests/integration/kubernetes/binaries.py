"""Where the Kubernetes binaries for the tests are, and what to do when they are missing."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
API_BINARIES = ("etcd", "kube-apiserver", "kubeadm", "kubectl", "helm", "glua")
REMEDY = (
    "`make e2e-tools TOOLS=api` builds them (once, some minutes, needs Go), or let "
    "PENSTOCK_E2E_CACHE name a folder where they are built"
)


def cache() -> Path:
    """Give the folder of what `make e2e-tools` builds: clones may share one by the variable."""
    return Path(os.environ.get("PENSTOCK_E2E_CACHE") or ROOT / ".e2e").resolve()


def cluster_file() -> Path:
    """Give the file in which `make cluster-up` describes the cluster. There is none without a cluster."""
    name = os.environ.get("PENSTOCK_E2E_CLUSTER", "penstock")
    return Path(os.environ.get("PENSTOCK_E2E_FILE") or cache() / "clusters" / name / "cluster.json")


def binaries(*names: str) -> list[Path]:
    """Give the paths of these binaries; skips the test, with the remedy, when one is missing."""
    paths = [cache() / "bin" / name for name in names]
    missing = [path.name for path in paths if not os.access(path, os.X_OK)]
    if missing:
        pytest.skip(f"no {', '.join(missing)} in {cache() / 'bin'}: {REMEDY}")
    return paths
