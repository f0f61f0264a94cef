"""Writes what the chart takes from elsewhere: ``python -m tools.chart``.

The definitions come from ``crds/``, the operator's rights from its table. Helm reads nothing
outside a chart's folder, so both are copies; a test compares them.
"""

from collections.abc import Iterator
from pathlib import Path

import yaml

from penstock_operator.api.rights import RIGHTS, Right

ROOT = Path(__file__).parent.parent
CHART = ROOT / "charts" / "penstock"
RIGHTS_HEAD = """\
# Made by `python -m tools.chart` from penstock_operator.api.rights; edit that.
# all: in every namespace that is watched. own: in the operator's namespace.
"""


def rights_text() -> str:
    """Return the rules of the operator's roles, each with its reason."""
    lines = [RIGHTS_HEAD.rstrip()]
    for scope, own in (("all", False), ("own", True)):
        rows = [line for right in RIGHTS if right.own is own for line in _rule(right)]
        lines += [f"{scope}:" if rows else f"{scope}: []", *rows]
    return "\n".join(lines) + "\n"


def _rule(right: Right) -> Iterator[str]:
    rule = {
        "apiGroups": [right.group],
        "resources": [right.resource],
        "verbs": list(right.verbs),
    }
    yield f"# {right.why}"
    yield f"- {yaml.safe_dump(rule, default_flow_style=True, width=1000, sort_keys=False).strip()}"


def copies() -> dict[Path, str]:
    """Return every file that is made here, with its content."""
    made = {CHART / "crds" / source.name: source.read_text() for source in (ROOT / "crds").iterdir()}
    return {**made, CHART / "files" / "rights.yaml": rights_text()}


def main() -> None:
    """Write the files."""
    for path, text in copies().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
