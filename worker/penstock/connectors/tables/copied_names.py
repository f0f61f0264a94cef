"""Names of files that a sink copies to a table before the commit that adds them.

A try that fails leaves its copies there. What removes files that no commit has added (VACUUM, ``remove_orphan_files``)
lists old ones first, and deletes them one by one later. So it may delete a file behind the commit that adds it, also
if somebody has written it again meanwhile. Only a name that is new is in no such list. The next try uses copies again
if it comes soon, so that a table that others write to does not fill with them.
"""

import hashlib

from penstock.base.threads import monotonic, uuid4
from penstock.connectors.staged_sink import StagedFile
from penstock.contract.ids import Epoch

USED_AGAIN_MAX_S = 3600.0  # far below the days that tables keep files for
NAME_CHARS = 16
FRESH_CHARS = 12


class CopiedNames:
    """Names of copies. Within an hour, equal files get equal names."""

    def __init__(self, owner: str) -> None:
        """``owner`` says which sink of which job copies."""
        self._owner = hashlib.sha256(owner.encode()).hexdigest()[:NAME_CHARS]
        self._fresh = ""
        self._until = 0.0

    def begin(self) -> None:
        """Begin to copy: give new names if the present ones are old."""
        if not self._fresh or monotonic() > self._until:
            self._fresh = uuid4().hex[-FRESH_CHARS:]
            self._until = monotonic() + USED_AGAIN_MAX_S

    def name(self, epoch: Epoch, index: int, block: StagedFile) -> str:
        """Return the name of a file. It says epoch, place and content."""
        content = block.part.sha256[:NAME_CHARS]
        return f"part-{epoch:012d}-{index:05d}-{self._owner}-{content}-{self._fresh}.parquet"
