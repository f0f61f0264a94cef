"""Packages that an image has from its base image, in the list of what is shipped.

The Dockerfiles install no package of a distribution and name no base image: whoever builds chooses it,
by its digest. So a list that is made from the locks cannot have its packages. It says so, unless it is
given what ``dpkg-query -W -f '${Package} ${Version} ${Architecture}\\n'`` says in the image.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

NOT_LISTED = (
    "The packages of the base image (BASE_IMAGE), Python and its standard library among them, are not in this list: "
    "whoever builds the image chooses it. make sbom BASE_PACKAGES=FILE adds them; see docs/security.md"
)
PROPERTY = "penstock:base-image"


def base_components(text: str) -> list[dict[str, Any]]:
    """Read the answer of ``dpkg-query``: a component for each line. Raises ValueError naming a line that is none."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) != 3:
            raise ValueError(f"{line!r} is no package: expected a name, a version and an architecture")
        name, version, architecture = words
        purl = f"pkg:deb/debian/{quote(name, safe='')}@{quote(version, safe='')}?arch={architecture}"
        found.append({"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl})
    return found


def with_base(sbom: Mapping[str, Any], packages: str | None) -> dict[str, Any]:
    """Return the list of one image with the packages of its base, or with the words that they are not in it."""
    metadata = dict(sbom.get("metadata", {}))
    root = metadata.get("component", {}).get("bom-ref")
    said = NOT_LISTED if packages is None else "its packages are in this list"
    metadata["properties"] = [*metadata.get("properties", []), {"name": PROPERTY, "value": said}]
    composition: dict[str, Any] = {"aggregate": "incomplete" if packages is None else "unknown"}
    if root is not None:
        composition["assemblies"] = [root]
    components = [*sbom["components"], *([] if packages is None else base_components(packages))]
    return {**sbom, "metadata": metadata, "components": components, "compositions": [composition]}
