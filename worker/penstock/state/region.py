"""Arrays that grow in place: address space is reserved at once, pages come with their first use.

A view of the whole reservation is handed out, so growing costs nothing and old views stay valid.
Only an array that outgrows its reservation is copied, into twice the space.

Behind the first few megabytes pages are large ones, where the system has them: a look-up among a
million keys touches four pages that no other look-up touches, and the processor remembers where
some 1,500 are. Arrays fill from the left, so at most one large page of each is there too early.
"""

import mmap
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

ROWS_RESERVED = 1 << 24
BYTES_RESERVED = 1 << 30
_SMALL_PAGES_BYTES = 1 << 22  # a small state is not made larger
_LARGE_PAGES = getattr(mmap, "MADV_HUGEPAGE", None)
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0)  # where it is known: no promise of memory or swap


def reserve(dtype: npt.DTypeLike, items: int, width: int = 1) -> npt.NDArray[Any]:
    """Return a zeroed, writable array of ``items`` (by ``width``) whose pages cost nothing yet."""
    kind = np.dtype(dtype)
    size = max(items * width * kind.itemsize, 1)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    if _LARGE_PAGES is not None and size > _SMALL_PAGES_BYTES:
        with suppress(OSError):  # a system built without them
            memory.madvise(_LARGE_PAGES, _SMALL_PAGES_BYTES, size - _SMALL_PAGES_BYTES)
    flat: npt.NDArray[Any] = np.frombuffer(memory, kind, items * width)
    return flat if width == 1 else flat.reshape(items, width)


def doubled(array: npt.NDArray[Any], used: int, least: int) -> npt.NDArray[Any]:
    """Return a copy of the first ``used`` items in at least ``least``, and twice, the space."""
    items = max(2 * len(array), least)
    wider = reserve(array.dtype, items, array.shape[1] if array.ndim > 1 else 1)
    wider[:used] = array[:used]
    return wider
