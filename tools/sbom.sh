#!/bin/sh
# Lists what is installed from the locks, as CycloneDX (build/sbom/*.cdx.json), and their licences
# (build/sbom/licences.txt); fails on a licence that is unknown or not allowed. `make sbom` calls it.
# BASE_PACKAGES: a file with the packages of the base image; without it the lists say that they lack them.
# The tool has an environment of its own, so that it is not among what it lists.
set -eu
cd "$(dirname "$0")/.."
VENV=${VENV:-.venv}
tool=$VENV/sbom
out=build/sbom

if ! cmp -s requirements-sbom.lock "$tool/installed.lock"; then
    rm -rf "$tool"
    "$VENV/bin/python" -m venv "$tool"
    "$tool/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
        --require-hashes -r requirements-sbom.lock
    cp requirements-sbom.lock "$tool/installed.lock"
fi
mkdir -p "$out"
# Its validation takes 8 s, and is of a list that is cut into parts below.
"$tool/bin/cyclonedx-py" environment --output-format JSON --output-reproducible --no-validate \
    --pyproject pyproject.toml --output-file "$tool/installed.cdx.json" "$VENV/bin/python" 2>"$out/tool.log" ||
    { cat "$out/tool.log" >&2; exit 1; }
"$VENV/bin/python" -m tools.licences "$tool/installed.cdx.json" "$out" ${BASE_PACKAGES:+"$BASE_PACKAGES"}
