"""Fails on functions over 50 lines and files over 600: ``python -m tools.sizes``.

Ruff counts statements, but a reader scrolls lines. So decorators, docstrings and comments count: a
function that does not fit on a screen is split.
"""

import ast
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.sources import python_files

FUNCTION_LINES_MAX = 50
FILE_LINES_MAX = 600


@dataclass(frozen=True, slots=True)
class Function:
    """One function and its length, from the first decorator to the last line."""

    name: str
    line: int
    lines: int


def functions(source: str) -> Iterator[Function]:
    """Every function of a module, nested ones and methods too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            last = node.end_lineno or node.lineno
            yield Function(node.name, node.lineno, last - first + 1)


def complaints(path: str, source: str) -> list[str]:
    """One line for everything in the file that is too long; empty when nothing is."""
    found = [
        f"{path}:{function.line}: function {function.name} has {function.lines} lines, at most {FUNCTION_LINES_MAX}"
        for function in functions(source)
        if function.lines > FUNCTION_LINES_MAX
    ]
    lines = len(source.splitlines())
    if lines > FILE_LINES_MAX:
        found.append(f"{path}:1: file has {lines} lines, at most {FILE_LINES_MAX}")
    return found


def main(repository: Path) -> int:
    """Print complaints and a summary. Gives the exit status."""
    sources = {str(p.relative_to(repository)): p.read_text() for p in python_files(repository)}
    found = [line for path, source in sources.items() for line in complaints(path, source)]
    lengths = [f.lines for source in sources.values() for f in functions(source)]
    for line in found:
        print(line)
    median = statistics.median(lengths) if lengths else 0
    print(f"sizes: {len(sources)} files, {len(lengths)} functions, median {median:g} lines")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent))
