"""Renders the diagrams of state machines from their tables: ``python -m tools.phases [--write]``.

A module of ``penstock.protocol`` with a table ``TRANSITIONS`` shows the table in its docstring, one
line for each phase. Without ``--write`` the command names the modules whose diagram is another
than their table.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from importlib import import_module
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "worker" / "penstock"
INDENT = "    "
DIAGRAM = re.compile(r"(?:^ {4}[A-Z_]+ *──>[^\n]*\n)+", re.MULTILINE)


def diagram(table: Mapping[Enum, tuple[Enum, ...]]) -> str:
    """Render a table: each phase, and those that may follow it."""
    width = max(len(phase.name) for phase in table)
    return "".join(
        f"{INDENT}{phase.name:{width}} ──> {', '.join(after.name for after in following)}\n"
        for phase, following in table.items()
    )


def modules() -> Iterator[Path]:
    """Find the modules of the protocol that have a table."""
    for path in sorted((PACKAGE / "protocol").rglob("*.py")):
        if re.search(r"^TRANSITIONS\b", path.read_text(encoding="utf-8"), re.MULTILINE):
            yield path


def redrawn(path: Path) -> str:
    """Return the source of a module with the diagram of its table."""
    name = ".".join(("penstock", *path.relative_to(PACKAGE).with_suffix("").parts))
    table = import_module(name).TRANSITIONS
    source, changed = DIAGRAM.subn(diagram(table), path.read_text(encoding="utf-8"), count=1)
    if not changed:
        raise SystemExit(f"{path}: its docstring has no diagram: write a line 'PHASE ──> PHASE'")
    return source


def main(arguments: list[str]) -> int:
    """Compare every diagram with its table, or write it. Gives the exit status."""
    status = 0
    for path in modules():
        source = redrawn(path)
        if source == path.read_text(encoding="utf-8"):
            continue
        if "--write" in arguments:
            path.write_text(source, encoding="utf-8")
        else:
            print(f"{path}: the diagram is another than its table: python -m tools.phases --write")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
