#!/bin/sh
# Makes the local environment: a virtual environment with the locked packages, every one checked
# against its hash, and Penstock itself in editable form. `make setup` calls it when the locks
# or pyproject.toml are newer than the last success. Installs nothing outside $VENV, and leaves
# pip's own configuration (index, proxy, certificates) as the user has set it.
set -eu

fail() {
    printf '\nmake setup: %s\n' "$1" >&2
    exit 1
}

say() { printf '== make setup: %s\n' "$1"; }

[ -n "${PYTHON:-}" ] || fail "no Python 3.11 or newer was found.
  Install one (Debian, Ubuntu: apt install python3.11 python3.11-venv; macOS: brew install python@3.11)
  or name one: make setup PYTHON=/path/to/python3.11"

"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    fail "$PYTHON is not Python 3.11 or newer ($("$PYTHON" --version 2>&1 || echo 'it does not run')).
  Name another: make setup PYTHON=/path/to/python3.11"

"$PYTHON" -c 'import venv, ensurepip' 2>/dev/null ||
    fail "$PYTHON lacks the 'venv' module with 'ensurepip'.
  Debian, Ubuntu: apt install $("$PYTHON" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
  or name another Python: make setup PYTHON=/path/to/python3.11"

pip() { "$VENV/bin/python" -m pip --disable-pip-version-check --no-input "$@"; }

# A broken or foreign environment (another Python, moved folder) is made anew.
if ! "$VENV/bin/python" -c 'import pip' 2>/dev/null; then
    say "virtual environment in $VENV with $("$PYTHON" --version)"
    rm -rf "$VENV"
    "$PYTHON" -m venv "$VENV" || fail "could not make a virtual environment in $VENV (see above)."
fi

say "build tools from requirements-build.lock"
pip install --quiet --require-hashes -r requirements-build.lock ||
    fail "a download or a hash failed (see above). Behind a proxy or mirror: set it with 'pip config'."

say "packages from requirements.lock (about 700 MB the first time: PySpark is most of it)"
pip install --require-hashes --no-build-isolation -r requirements.lock ||
    fail "a download, a hash or a build failed (see above); 'make setup' again goes on where it stopped."

say "penstock itself, editable"
pip install --quiet --no-deps --no-build-isolation -e . || fail "could not install Penstock (see above)."

say "compiled kernels (about 15 s of work the first time, then cached for every run)"
"$VENV/bin/python" -c 'from penstock.model.kernels import compile_all; compile_all()' ||
    fail "the kernels could not be compiled (see above)."

say "done: $("$VENV/bin/python" -c 'import penstock; print("penstock", penstock.__version__)')"
