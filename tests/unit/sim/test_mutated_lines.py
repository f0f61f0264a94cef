"""Every mutant changes a line that ships: it is there once, in a function that the worker imports and uses."""

import ast
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import grimp
import pytest

from sim.mutants.patching import Patch, patched_source
from sim.mutants.table import MUTANTS
from sim.real_engine.mutants import MUTANTS as ENGINE_MUTANTS

PROCESSES = ("penstock.engine.main", "penstock.keeper.keeper")
PATCHES = [
    pytest.param(patch, id=f"{mutant.name}-{number}")
    for mutant in MUTANTS.values()
    for number, patch in enumerate(mutant.patches)
]
ENGINE_PATCHES = [pytest.param(patch, id=mutant.name) for mutant in ENGINE_MUTANTS.values() for patch in mutant.patches]


@cache
def shipped() -> frozenset[str]:
    """Return the modules that a worker's processes import, inside functions too."""
    graph = grimp.build_graph("penstock", cache_dir=None)
    return frozenset(name for process in PROCESSES for name in graph.find_upstream_modules(process))


def source_of(module: str) -> str:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")


@cache
def used() -> frozenset[str]:
    """Return every name that those modules read: of a variable, an attribute, an import."""
    found: set[str] = set()
    for module in shipped():
        for node in ast.walk(ast.parse(source_of(module))):
            match node:
                case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                    found.add(name)
                case ast.ImportFrom(names=names):
                    found.update(alias.name for alias in names)
    return frozenset(found)


def functions_with(patch: Patch) -> list[str]:
    """Return the names of the functions around the line of a patch, the outer ones too."""
    lines = source_of(patch.module).splitlines()
    number = next(n for n, text in enumerate(lines, start=1) if text.strip() == patch.line.strip())
    return [
        node.name
        for node in ast.walk(ast.parse("\n".join(lines)))
        if isinstance(node, ast.FunctionDef) and node.lineno <= number <= (node.end_lineno or 0)
    ]


@pytest.mark.parametrize("patch", PATCHES + ENGINE_PATCHES)
def test_the_line_of_a_mutant_is_in_its_module_once(patch: Patch) -> None:
    source = source_of(patch.module)
    changed = patched_source(source, patch)
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source)), "the mutant means the same"


@pytest.mark.parametrize("patch", PATCHES)
def test_a_mutant_breaks_what_the_worker_runs(patch: Patch) -> None:
    assert patch.module in shipped(), "the worker does not import it: the simulation would judge its own copy"
    names = functions_with(patch)
    assert names, "a line outside of functions cannot be changed in place"
    assert all(name in used() or name.startswith("__") for name in names), f"nothing in the worker uses {names}"
