"""The one rule for paths of savepoints that come from outside: every part of them names something.

A part that is empty, ``.`` or ``..`` means another folder than the one that it seems to name: with
``NAMESPACE//savepoints/a`` a whole namespace's folder would be mounted. The definitions (CRDs) hold
:data:`PATH`; the operator checks what it mounts, and a worker what it opens, with
:func:`plain_parts`.
"""

import re
from typing import Annotated

from penstock.contract.schema import Field

# In the syntax that Python and RE2 share: RE2 knows no look-ahead, so what a part may begin with is
# spelt out. No control character is in a path.
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
