#!/bin/sh
# Writes the lock files anew: of development, of builds, of lists, of the site, and of the images. uv resolves for every platform at
# once and is needed here only, so it is installed into a folder of its own. No address of an
# index is written: the locks work wherever the user's pip looks for packages.
set -eu

UV_HOME=$(mktemp -d)
trap 'rm -rf "$UV_HOME"' EXIT
.venv/bin/python -m venv "$UV_HOME"
"$UV_HOME/bin/python" -m pip install --quiet --disable-pip-version-check uv

compile() {
    "$UV_HOME/bin/uv" pip compile --quiet --universal --python-version 3.11 --upgrade \
        --generate-hashes --no-emit-index-url --no-emit-find-links --no-strip-extras \
        --custom-compile-command "make lock" "$@"
}

compile requirements-build.in -o requirements-build.lock
compile requirements-sbom.in -o requirements-sbom.lock
compile requirements-docs.in -o requirements-docs.lock
compile pyproject.toml --all-extras -o requirements.lock
# The images get what is tested: the same versions, fewer packages.
compile pyproject.toml -c requirements.lock -o requirements-worker.lock
compile pyproject.toml --extra kafka --extra avro --extra postgres --extra s3 --extra delta --extra iceberg \
    -c requirements.lock -o requirements-worker-extras.lock
compile requirements-operator.in -c requirements.lock -o requirements-operator.lock
compile requirements-spark.in -c requirements.lock -o requirements-spark.lock
