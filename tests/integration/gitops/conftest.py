"""The engine of Argo CD's scripts."""

from pathlib import Path

import pytest

from tests.integration.kubernetes.binaries import binaries


@pytest.fixture(scope="session")
def glua() -> Path:
    """Give the interpreter; skips, naming the remedy, when it was not built."""
    return binaries("glua")[0]
