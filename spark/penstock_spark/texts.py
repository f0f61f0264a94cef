"""Finds the text that every installation has, divides it into parts, and reads its lines."""

import hashlib
import os
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.base.errors import ConfigError

PATTERNS = ("*.py", "*.txt")


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file of text: its full path, the name that orders it, and its size in bytes."""

    path: str
    name: str
    size: int


def installed_roots() -> tuple[Path, ...]:
    """Return the folders of the standard library and of the installed packages."""
    paths = sysconfig.get_paths()
    return tuple(dict.fromkeys(Path(paths[name]) for name in ("stdlib", "purelib")))


def find_text(roots: Sequence[Path], patterns: Sequence[str], size_max: int | None) -> tuple[TextFile, ...]:
    """List the files under ``roots`` that match a pattern, by name, up to ``size_max`` bytes.

    The order depends on the names only. Installed packages under the standard library are not
    listed twice. Raises ConfigError if a root is missing or nothing is found.
    """
    found: dict[str, TextFile] = {}
    for index, root in enumerate(roots):
        if not root.exists():
            raise ConfigError(f"there is no folder {root}: name one with text files")
        for file in _walk(root, patterns, roots):
            name = f"{index}/{file.relative_to(root).as_posix()}" if file != root else file.name
            found.setdefault(str(file), TextFile(str(file), name, file.stat().st_size))
    if not found:
        places = ", ".join(str(r) for r in roots)
        raise ConfigError(f"no file like {' or '.join(patterns)} under {places}: try --pattern '*'")
    return tuple(_up_to(sorted(found.values(), key=lambda f: f.name), size_max))


def _walk(root: Path, patterns: Sequence[str], roots: Sequence[Path]) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    others = [r for r in roots if r != root and r.is_relative_to(root)]
    for where, folders, names in os.walk(root):
        here = Path(where)
        folders[:] = [n for n in folders if n != "__pycache__" and here / n not in others]
        for name in names:
            file = here / name
            if any(file.match(p) for p in patterns) and file.is_file():
                yield file


def _up_to(files: list[TextFile], size_max: int | None) -> Iterator[TextFile]:
    total = 0
    for file in files:
        total += file.size
        if size_max is not None and total > size_max and total > file.size:
            return
        yield file


def fingerprint(files: Sequence[TextFile]) -> str:
    """Return a hash of names and sizes. It changes when the installed packages change."""
    text = "\n".join(f"{f.name}\t{f.size}" for f in files)
    return hashlib.sha256(text.encode()).hexdigest()


def cut(files: Sequence[TextFile], parts: int) -> list[tuple[TextFile, ...]]:
    """Divide the list into at most ``parts`` contiguous, non-empty pieces of about equal bytes."""
    total = sum(f.size for f in files)
    pieces: list[list[TextFile]] = [[]]
    before = 0
    for file in files:
        due = min(parts - 1, before * parts // max(total, 1))
        if due >= len(pieces) and pieces[-1]:
            pieces.append([])
        pieces[-1].append(file)
        before += file.size
    return [tuple(p) for p in pieces if p]


def lines_of(path: str) -> list[str]:
    """Return the lines of a file without line ends. Bytes that are not UTF-8 become U+FFFD."""
    text = Path(path).read_bytes().decode("utf-8", errors="replace")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines
