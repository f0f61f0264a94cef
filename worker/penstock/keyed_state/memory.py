"""Arrays that grow in place: address space is reserved at once, and memory is used page by page.

After the first few megabytes, pages are large ones where the system has them. A look-up among a
million keys touches four pages that no other look-up touches, and the processor's page table cache
has about 1,500 entries. Arrays fill from the left, so at most one large page of each is unused.
"""

import mmap
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

_SMALL_PAGES_BYTES = 1 << 22  # small pages first, so that a small state uses little memory
_LARGE_PAGES = getattr(mmap, "MADV_HUGEPAGE", None)
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0)  # the system need not set memory or swap aside

NEVER = np.iinfo(np.int64).max  # the time of what does not come


def reserve(dtype: npt.DTypeLike, items: int, width: int = 1) -> npt.NDArray[Any]:
    """Return a zeroed, writable array of ``items`` (by ``width``) that uses no memory yet."""
    kind = np.dtype(dtype)
    size = max(items * width * kind.itemsize, 1)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    if _LARGE_PAGES is not None and size > _SMALL_PAGES_BYTES:
        with suppress(OSError):  # the system was built without large pages
            memory.madvise(_LARGE_PAGES, _SMALL_PAGES_BYTES, size - _SMALL_PAGES_BYTES)
    flat: npt.NDArray[Any] = np.frombuffer(memory, kind, items * width)
    return flat if width == 1 else flat.reshape(items, width)


def doubled(array: npt.NDArray[Any], used: int, least: int) -> npt.NDArray[Any]:
    """Return a copy of the first ``used`` items with room for ``least``, or twice as many as before."""
    items = max(2 * len(array), least)
    wider = reserve(array.dtype, items, array.shape[1] if array.ndim > 1 else 1)
    wider[:used] = array[:used]
    return wider
