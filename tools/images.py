"""Fails on a base image without a digest: ``python -m tools.images``.

A tag may name another image tomorrow. So FROM in a Dockerfile names a digest, a stage of its own, or
an argument. Such an argument has no default, or a default with a digest. The build then gives the
image: by its digest, or an image that was made on this machine (``tools/image.sh``).
"""

import re
import sys
from pathlib import Path

DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
ARGUMENT = re.compile(r"\$\{?(\w+)\}?")
NOT_OURS = frozenset({".venv", ".e2e", ".git", "build"})


def complaints(path: str, text: str) -> list[str]:
    """Return a line for each image that is named without a digest and is no stage of the same file."""
    defaults: dict[str, str] = {}
    stages: set[str] = set()
    found = []
    for number, line in _instructions(text):
        word, _, rest = line.partition(" ")
        match word.upper():
            case "ARG":
                for each in rest.split():
                    name, _, default = each.partition("=")
                    defaults[name] = default
            case "FROM":
                words = [w for w in rest.split() if not w.startswith("--")]
                found += [f"{path}:{number}: {w}" for w in _judge(words[0], defaults, stages)]
                if len(words) == 3:
                    stages.add(words[2])
            case "COPY" | "ADD" | "RUN":
                for image in re.findall(r"--(?:from=|mount=\S*?from=)([^\s,]+)", rest):
                    if not image.isdecimal():
                        found += [f"{path}:{number}: {w}" for w in _judge(image, defaults, stages)]
    return found


def _instructions(text: str) -> list[tuple[int, str]]:
    """Return the lines with their numbers. Continued lines are joined, and comments are left out."""
    found: list[tuple[int, str]] = []
    open_line = False
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if open_line:
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.rstrip(chr(92)).strip()}")
        else:
            found.append((number, line.rstrip(chr(92)).strip()))
        open_line = line.endswith(chr(92))
    return found


def _judge(image: str, defaults: dict[str, str], stages: set[str]) -> list[str]:
    argument = ARGUMENT.fullmatch(image)
    if argument is None:
        good = image in stages or image == "scratch" or DIGEST.search(image)
        return [] if good else [f"{image} is named by no digest"]
    default = defaults.get(argument[1])
    if default is None:
        return [f"{image} is no argument of this file (ARG {argument[1]})"]
    if not default or DIGEST.search(default):
        return []
    return [f"the default of {argument[1]}, {default}, is named by no digest"]


def dockerfiles(repository: Path) -> list[Path]:
    """List the files that images are made from."""
    return sorted(
        path
        for path in repository.rglob("*ockerfile*")
        if path.is_file()
        and not NOT_OURS & set(path.relative_to(repository).parts)
        and (path.name.startswith("Dockerfile") or path.name.endswith(".Dockerfile"))
    )


def main(repository: Path) -> int:
    """Print complaints. Gives the exit status."""
    files = dockerfiles(repository)
    lines = [line for path in files for line in complaints(str(path.relative_to(repository)), path.read_text())]
    print("\n".join([*lines, f"images: {len(files)} files, {len(lines)} complaints"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent))
