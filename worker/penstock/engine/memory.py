"""How the process keeps memory that was freed: for the next message, and not for the system.

Each message of a stream is received into fresh memory of about its size. The C library gives such
large blocks back to the system when they are freed, so that every page of every message is mapped,
cleared and unmapped again: an eighth of the time that receiving takes for rows of 1 KiB.
"""

import ctypes
import sys

from penstock.base.limits import ELEMENT_BYTES_MAX, FREED_BYTES_KEPT

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of settings in <malloc.h>
_MMAP_THRESHOLD_MAX = 32 * 1024 * 1024  # more is refused


def keep_freed_memory() -> bool:
    """Let freed memory be used again, up to FREED_BYTES_KEPT a heap; False where that is unknown.

    For the whole process, so only for one of our own. Known to glibc alone.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    blocks = min(ELEMENT_BYTES_MAX, _MMAP_THRESHOLD_MAX)
    return bool(mallopt(_MMAP_THRESHOLD, blocks) and mallopt(_TRIM_THRESHOLD, FREED_BYTES_KEPT))
