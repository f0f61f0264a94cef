"""Shows the result of a check: as a table on the screen, and as JSON in a file."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO


def table(rows: Sequence[tuple[str, object]], out: TextIO = sys.stdout) -> None:
    """Print names and values in two columns. Whole numbers have separators and are right-aligned."""
    cells = [(name, f"{v:,}" if isinstance(v, int) and not isinstance(v, bool) else str(v)) for name, v in rows]
    wide = max(len(name) for name, _ in cells)
    values = max(len(value) for _, value in cells)
    for name, value in cells:
        print(f"  {name:<{wide}}  {value:>{values}}", file=out)


def write_json(path: str | None, report: Mapping[str, object]) -> None:
    """Write the report to a file. ``-`` is standard output; None writes nothing."""
    if path is None:
        return
    text = json.dumps(report, indent=1, sort_keys=True, default=str)
    if path == "-":
        print(text)
    else:
        Path(path).write_text(text + "\n")
