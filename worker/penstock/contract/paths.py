"""The one rule for paths of savepoints that users give: each part must be a name.

With a part that is empty, ``.`` or ``..`` a path leads to another folder than it seems to:
``NAMESPACE//savepoints/a`` would mount the folder of a whole namespace. The CRDs check paths by
:data:`PATH`. The operator checks what it mounts by :func:`plain_parts`, and a worker what it opens.
"""

import re
from typing import Annotated

from penstock.contract.schema import Field

# Python and RE2 share this syntax. RE2 has no look-ahead, so the pattern lists how a part may begin.
# A path has no control characters.
_CHAR = r"[^/\x00-\x1f\x7f]"
_FIRST = r"[^/.\x00-\x1f\x7f]"
_PART = rf"(?:{_FIRST}|\.{_FIRST}|\.\.{_CHAR}){_CHAR}*"
PATH = rf"/?{_PART}(?:/{_PART})*"
PATH_RULE = "a path without an empty part, and without '.' or '..' as a part"
PATH_CHARS_MAX = 4096

SnapshotPath = Annotated[str, Field(pattern=PATH, rule=PATH_RULE, length_max=PATH_CHARS_MAX)]

_PATH = re.compile(PATH)


def plain_parts(path: str) -> list[str] | None:
    """Return the parts of a path, without a leading ``/``; None if it breaks :data:`PATH_RULE`."""
    return path.removeprefix("/").split("/") if _PATH.fullmatch(path) else None
