"""Folders that survive a power failure; shared by the adapters that write files.

A new name is durable when the folder that holds it was synced. Whoever made a folder may have
died before that, so a folder that is found is not known to be durable either.
"""

import os
from contextlib import suppress
from pathlib import Path


def make_durable(folder: Path) -> None:
    """Make ``folder`` with its parents, so that no power failure takes its name away any more.

    Each parent on the same file system is synced, also one that was there. Blocks for the disk.
    Raises OSError. A parent that may not be read is passed by: nobody made it a moment ago.
    """
    folder.mkdir(parents=True, exist_ok=True)
    real = folder.resolve()
    device = real.stat().st_dev
    for parent in real.parents:
        if parent.stat().st_dev != device:
            return
        with suppress(PermissionError):
            sync(parent)


def sync(folder: Path) -> None:
    """Make the names in a folder durable. Blocks for the disk. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
