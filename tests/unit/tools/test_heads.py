"""Commands in the heads of files run as typed, from the root of a checkout."""

import itertools
import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from penstock.cli.app import make_app

ROOT = Path(__file__).parents[3]
FILES = sorted(
    path
    for pattern in (
        "examples/**/*.yaml",
        "Dockerfile.*",
        "gitops/argocd/*.yaml",
        "charts/**/*.yaml",
    )
    for path in ROOT.glob(pattern)
)
CATEGORY = "streams"  # of two kinds: kubectl watches one at a time


def commands(path: Path) -> list[list[str]]:
    """Return the commands of the comment that a file begins with, continued lines put together."""
    head: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        head.append(line[1:])
    text = re.sub(r"\\\n *", "", "\n".join(head))
    lines = [line.strip() for line in text.splitlines() if line.startswith("   ")]
    parts = [part for line in lines for part in line.split(" && ")]
    return [shlex.split(part) for part in parts]


def of(program: str) -> list[list[str]]:
    return [words for path in FILES for words in commands(path) if words[0] == program]


def test_there_are_commands_of_both() -> None:
    assert len(of("penstock")) >= 6
    assert len(of("kubectl")) >= 6


@pytest.mark.parametrize("words", of("kubectl"), ids=" ".join)
def test_files_of_kubectl_commands_exist(words: list[str]) -> None:
    marks = ("-f", "--patch-file")
    files = [after for mark, after in itertools.pairwise(words) if mark in marks]
    assert all((ROOT / file).is_file() for file in files)
    assert not (CATEGORY in words and "-w" in words)


@pytest.mark.parametrize("words", of("penstock"), ids=" ".join)
def test_penstock_commands_are_accepted(words: list[str]) -> None:
    command = get_command(make_app())
    _, name, *arguments = words
    each = command.commands[name]  # type: ignore[attr-defined]
    context = each.make_context(name, list(arguments))
    file = context.params.get("file")
    assert file is None or (ROOT / file).is_file()
