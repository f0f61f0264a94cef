"""Runs a module of the core with one line changed, without touching any file on disk.

The patch is an import hook: the module is compiled from its own source with one line replaced,
and the byte-code cache is neither read nor written. Use it in a fresh process, before the module
was imported for the first time.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType


@dataclass(frozen=True, slots=True)
class Patch:
    """One line of one module, as it stands (leading blanks apart), and what replaces it."""

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
    """Compiles the patched text; never uses the byte-code cache."""

    patch: Patch

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the changed module."""
        source = self.get_source(fullname)
        assert source is not None
        return compile(patched_source(source, self.patch), self.path, "exec", dont_inherit=True)


class _Finder:
    """Answers for the patched module only; all others go their usual way."""

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
