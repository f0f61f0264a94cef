"""Files of a table in a folder: whole or not there, and safe from a power failure."""

import os
from pathlib import Path

from penstock.base.threads import uuid4


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, or replace it. It is there as a whole, and survives a power failure. Raises OSError."""
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    draft.write_bytes(data)
    sync(draft)
    draft.rename(path)
    sync(path)


def sync(path: Path) -> None:
    """Let a file and its name survive a power failure. Raises OSError."""
    for place in (path, path.parent):
        handle = os.open(place, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
