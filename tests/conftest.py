"""What a run says first, which tests are skipped here and how they would run; and what it keeps."""

import gc
import os

from tests.integration.kubernetes.binaries import API_BINARIES, REMEDY, cache


def pytest_report_header() -> str:
    """Name the binaries of Kubernetes that are missing, in one line for all their tests."""
    folder = cache() / "bin"
    missing = [name for name in API_BINARIES if not os.access(folder / name, os.X_OK)]
    if not missing:
        return f"kubernetes: tests use the binaries in {folder}"
    return f"kubernetes: tests are skipped, no {', '.join(missing)} in {folder}: {REMEDY}"


def pytest_collection_finish() -> None:
    """Let the garbage collector walk what tests make, not what they import: that stays."""
    gc.collect()
    gc.freeze()
