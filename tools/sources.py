"""Which Python files are ours."""

from collections.abc import Iterator
from pathlib import Path

ROOTS = ("worker", "operator", "spark", "bench", "sim", "tests", "e2e", "examples", "tools")


def python_files(repository: Path) -> Iterator[Path]:
    """Every Python file below the source roots that exist, in a stable order."""
    for root in ROOTS:
        yield from sorted((repository / root).rglob("*.py"))
