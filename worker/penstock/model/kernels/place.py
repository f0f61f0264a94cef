"""Where compiled kernels are stored, and whether one is being compiled. Does not import numba."""

import fcntl
import hashlib
import os
from functools import cache
from pathlib import Path

CACHE_ENV = "PENSTOCK_KERNEL_CACHE"
LOCK_SUFFIX, BUILT_SUFFIX = ".lock", ".built"


@cache
def folder_of_version() -> Path:
    """Return the folder for these sources of the kernels, whether or not it is there.

    ``PENSTOCK_KERNEL_CACHE``, or ``penstock/kernels`` in the user's cache folder; below it one
    folder per version of the sources.
    """
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    root = Path(os.environ.get(CACHE_ENV) or os.path.join(home, "penstock", "kernels"))
    return root / digest.hexdigest()[:16]


def is_compiling(folder: Path) -> bool:
    """Return whether some process builds a kernel in ``folder`` that was never built before."""
    built = {path.name.split(".", 2)[1] for path in folder.glob(f"*{BUILT_SUFFIX}")}
    locks = (p for p in folder.glob(f"*{LOCK_SUFFIX}") if p.name.split(".", 2)[1] not in built)
    return any(map(_is_held, locks))


def _is_held(lock: Path) -> bool:
    try:
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # it is gone, or another user's
        return False
    return False
