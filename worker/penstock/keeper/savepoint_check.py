"""``python -m penstock.keeper.savepoint_check ROOT PATH``: can a job begin from the savepoint at ``PATH``?

Exits 0 when it can. Otherwise it prints ``REASON: what is wrong`` to standard error, without a
newline at the end, and exits with ``pod.LOOK_REFUSED``. The reasons:

- ``PathNotFound``: the folder does not exist.
- ``PathOutside``: a link leads out of ``ROOT``.
- ``PathUnreadable``: the folder is not a savepoint that can be read.

A restore reads the same files first: index and manifest. The files of the state are not checked
here; their hashes are checked when the state is loaded.
"""

import os
import sys
from pathlib import Path

from penstock.contract import pod
from penstock.keeper.savepoint_copies import read_snapshot
from penstock.protocol.keeper_core_messages import ImportFailed, ReadSnapshot


def look(root: str, path: str) -> str:
    """Return why the folder cannot be used, as a reason code and a text. Empty when it can be used."""
    real, above = Path(os.path.realpath(path)), Path(os.path.realpath(root))
    if not os.path.lexists(path):
        return f"{pod.PATH_NOT_FOUND}: {path}: there is no such folder"
    if above != Path(root) or above not in real.parents:
        return f"{pod.PATH_OUTSIDE}: {path} leads out of {root}, to {real}"
    found = read_snapshot(ReadSnapshot(0, path))
    if isinstance(found, ImportFailed):
        return f"{pod.PATH_UNREADABLE}: {found.reason}"
    return ""


def main(arguments: list[str]) -> int:
    """Check the savepoint and return the exit status."""
    problem = look(*arguments)
    print(problem, file=sys.stderr, end="")
    return pod.LOOK_REFUSED if problem else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
