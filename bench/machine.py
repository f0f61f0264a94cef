"""Describes the machine and the software of a result."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("pyarrow", "numba", "numpy", "rocksdict", "grpcio")


def describe() -> dict[str, Any]:
    """Return revision, machine and versions, without the name of a host or a person."""
    return {
        "revision": _git("rev-parse", "--short=12", "HEAD"),
        "changed": bool(_git("status", "--porcelain", "--untracked-files=no", "--", "worker")),
        "cpu": _field(Path("/proc/cpuinfo"), "model name"),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "python_build": f"{platform.python_compiler()}, {' '.join(platform.python_build())}",
        "packages": {name: version(name) for name in PACKAGES},
    }


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _field(file: Path, name: str) -> str:
    if not file.exists():
        return platform.processor()
    for line in file.read_text().splitlines():
        if line.startswith(name):
            return line.split(":", 1)[1].strip()
    return platform.machine()
