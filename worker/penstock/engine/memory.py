"""Keeps freed memory in the process for the next message, instead of returning it to the system.

Each message of a stream is received into new memory of about its size. The C library returns such
large blocks to the system when they are freed. So every page of every message is mapped, cleared and
unmapped again, which takes an eighth of the time of receiving rows of 1 KiB.
"""

import ctypes
import sys

from penstock.base.limits import ELEMENT_BYTES_MAX, FREED_BYTES_KEPT

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of settings in <malloc.h>
_MMAP_THRESHOLD_MAX = 32 * 1024 * 1024  # more is refused


def keep_freed_memory() -> bool:
    """Reuse freed memory, up to FREED_BYTES_KEPT per heap; return False where that is not possible.

    It changes the whole process, so only our own processes call it. It works with glibc only.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    blocks = min(ELEMENT_BYTES_MAX, _MMAP_THRESHOLD_MAX)
    return bool(mallopt(_MMAP_THRESHOLD, blocks) and mallopt(_TRIM_THRESHOLD, FREED_BYTES_KEPT))
