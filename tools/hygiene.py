"""Fails on dangerous calls, swallowed errors and sleeping tests: ``python -m tools.hygiene``.

- code execution from data: pickle and its relatives, yaml.load, numpy's allow_pickle;
- swallowed errors: a handler of every exception whose body does nothing;
- unreliable tests: sleeping, and patching our own code;
- an engine that ends its process by ``os._exit``: the simulation must see it, so it is
  ``penstock.base.threads.end_process``;
- symbolic links in git: one that a person has made names a path of one machine.

Ruff bans some of these too, but a ``noqa`` comment silences ruff. Nothing silences this check.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.sources import python_files

BANNED_MODULES = frozenset({"cloudpickle", "dill", "jsonpickle", "marshal", "pickle", "shelve"})
BANNED_CALLS = frozenset({"yaml.load", "yaml.load_all", "yaml.full_load", "yaml.unsafe_load", "eval", "exec"})
# Packages that the simulation runs as they are. An import contract keeps their other originals away.
SIMULATED = tuple(f"worker/penstock/{name}/" for name in ("connectors", "engine", "keyed_state", "steps", "transport"))
BANNED_IN_SIMULATED = frozenset({"os._exit"})
BANNED_IN_TESTS = frozenset({"time.sleep", "mock.patch", "unittest.mock.patch"})
LINK = "120000"  # git's mode of a symbolic link
# A user's script in a job file is code by intent: this one function may run it.
EXEC_ALLOWED = frozenset({"worker/penstock/graph/entrypoint.py"})


def complaints(path: str, source: str) -> list[str]:
    """One line for everything in the file that is banned; empty when nothing is."""
    return [f"{path}:{line}: {what}" for node in ast.walk(ast.parse(source)) for line, what in _judge(node, path)]


def _judge(node: ast.AST, path: str) -> Iterator[tuple[int, str]]:
    match node:
        case ast.Import(names=names):
            for name in names:
                yield from _judge_import(node.lineno, name.name)
        case ast.ImportFrom(module=str(module)):
            yield from _judge_import(node.lineno, module)
        case ast.Call():
            yield from _judge_call(node, path)
        case ast.ExceptHandler():
            if _catches_all(node) and all(_does_nothing(line) for line in node.body):
                yield node.lineno, "an exception of any kind vanishes here"


def _judge_import(line: int, module: str) -> Iterator[tuple[int, str]]:
    if module.partition(".")[0] in BANNED_MODULES:
        yield line, f"{module} runs code from data"


def _judge_call(node: ast.Call, path: str) -> Iterator[tuple[int, str]]:
    name = ast.unparse(node.func)
    if name in BANNED_CALLS and not (name == "exec" and path in EXEC_ALLOWED):
        yield node.lineno, f"{name} runs code from data"
    if path.startswith("tests/") and name in BANNED_IN_TESTS:
        yield node.lineno, f"{name} in a test: wait for the event, or use a fake"
    if path.startswith(SIMULATED) and name in BANNED_IN_SIMULATED:
        yield node.lineno, f"{name} in the engine: take penstock.base.threads.end_process"
    for keyword in node.keywords:
        if keyword.arg == "allow_pickle" and ast.unparse(keyword.value) != "False":
            yield node.lineno, "allow_pickle runs code from data"


def _catches_all(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or ast.unparse(handler.type) in {"Exception", "BaseException"}


def _does_nothing(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass | ast.Continue) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def links(repository: Path) -> list[str]:
    """One line for everything in git that is a symbolic link; empty where there is no git."""
    listing = subprocess.run(["git", "ls-files", "-s"], cwd=repository, capture_output=True, text=True, check=False)
    paths = [line.partition("\t")[2] for line in listing.stdout.splitlines() if line.startswith(LINK)]
    return [f"{path}: a symbolic link in git" for path in paths]


def main(repository: Path) -> int:
    """Print complaints. Gives the exit status."""
    found = links(repository) + [
        line
        for path in python_files(repository)
        for line in complaints(str(path.relative_to(repository)), path.read_text())
    ]
    for line in found:
        print(line)
    print(f"hygiene: {len(found)} complaints")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent))
