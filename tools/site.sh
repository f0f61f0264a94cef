#!/bin/sh
# Builds the documentation into build/site; a broken link or anchor fails it. `make docs` calls it.
# The tools have an environment of their own, as those of the list of packages have (tools/sbom.sh).
set -eu
cd "$(dirname "$0")/.."
VENV=${VENV:-.venv}
tool=$VENV/docs

if ! cmp -s requirements-docs.lock "$tool/installed.lock"; then
    rm -rf "$tool"
    "$VENV/bin/python" -m venv "$tool"
    "$tool/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check --no-input \
        --require-hashes -r requirements-docs.lock
    cp requirements-docs.lock "$tool/installed.lock"
fi
mkdir -p build
# Quiet, it would not count warnings either.
NO_MKDOCS_2_WARNING=1 PYTHONPATH=. "$tool/bin/python" -m mkdocs build --strict --clean 2>build/site.log ||
    { grep -v '^INFO' build/site.log >&2; exit 1; }
"$VENV/bin/python" -m tools.offline build/site
