"""Patching: it runs a module of the core with one changed line, without a change on disk.

There are two ways. By an import hook (``install``) the module is compiled from its source with the
line replaced, in a process that has not imported it yet. In place (``change``) the function with the
line gets the code of the changed source, so all users of the function run that. Both last until the
process ends.
"""

import inspect
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType


@dataclass(frozen=True, slots=True)
class Patch:
    """One line of one module, without leading blanks, and its replacement."""

    module: str
    line: str
    mutated: str


def patched_source(source: str, patch: Patch) -> str:
    """Replace the one line. Raises AssertionError unless it occurs exactly once."""
    lines = source.splitlines()
    places = [i for i, text in enumerate(lines) if text.strip() == patch.line.strip()]
    assert len(places) == 1, f"{patch.module} has {len(places)} lines {patch.line.strip()!r}"
    old = lines[places[0]]
    indent = old[: len(old) - len(old.lstrip())]
    lines[places[0]] = indent + patch.mutated.strip()
    return "\n".join(lines) + "\n"


class _PatchedLoader(SourceFileLoader):
    """Compiles the patched text and never uses the byte-code cache."""

    patch: Patch

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the changed module."""
        source = self.get_source(fullname)
        assert source is not None
        return compile(patched_source(source, self.patch), self.path, "exec", dont_inherit=True)


class _Finder:
    """Finds the patched module only. All others are found as usual."""

    def __init__(self, patch: Patch) -> None:
        self._patch = patch

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the one module, with a loader that patches it."""
        if name != self._patch.module:
            return None
        spec = PathFinder.find_spec(name, path, target)
        assert spec is not None
        assert spec.origin is not None
        loader = _PatchedLoader(name, spec.origin)
        loader.patch = self._patch
        spec.loader = loader
        return spec


def install(patch: Patch) -> None:
    """Change the module for this process. Raises AssertionError when it was imported before."""
    assert patch.module not in sys.modules, f"{patch.module} is imported already"
    sys.meta_path.insert(0, _Finder(patch))


def change(patches: Sequence[Patch]) -> None:
    """Change functions in place. Raises AssertionError for a line outside of functions."""
    for name in dict.fromkeys(patch.module for patch in patches):
        module = import_module(name)
        assert module.__file__ is not None
        source = changed = Path(module.__file__).read_text(encoding="utf-8")
        for patch in (p for p in patches if p.module == name):
            changed = patched_source(changed, patch)
        replace_code(module, source, changed)


def replace_code(module: ModuleType, source: str, changed: str) -> None:
    """Give the functions of ``module`` the code of its changed source. Raises AssertionError when none differs."""
    before, after = (compile(text, str(module.__file__), "exec") for text in (source, changed))
    codes = list(_changed(before, after))
    assert codes, f"no function of {module.__name__} has the change"
    for code in codes:
        _function(module, code.co_qualname).__code__ = code


def _changed(before: CodeType, after: CodeType) -> Iterator[CodeType]:
    """Find the functions that differ, those of classes included, not those inside functions."""
    inner = [[c for c in code.co_consts if isinstance(c, CodeType)] for code in (before, after)]
    for old, new in zip(*inner, strict=True):
        if old == new:
            continue
        if new.co_flags & inspect.CO_OPTIMIZED:
            yield new
        else:  # the body of a class
            yield from _changed(old, new)


def _function(module: ModuleType, qualname: str) -> FunctionType:
    found: object = module
    for part in qualname.split("."):
        found = inspect.getattr_static(found, part)
    if isinstance(found, property):
        found = found.fget
    elif isinstance(found, staticmethod | classmethod):
        found = found.__func__
    assert callable(found)
    found = inspect.unwrap(found)
    assert isinstance(found, FunctionType), f"{module.__name__}.{qualname} is no function"
    return found
