"""Keeps what was made of an object: uid and version say that it is the same one, unchanged."""

from collections.abc import Callable
from typing import TypeVar

from penstock.contract.fields import Plain

T = TypeVar("T")
VIEWS_KEPT = 4096  # of one kind; a job has some dozen objects


def once_per_version(view: Callable[[Plain], T]) -> Callable[[Plain], T]:
    """Have ``view`` look at each version of an object once; what it returns is never changed."""
    kept: dict[tuple[str, str], T] = {}

    def look(plain: Plain) -> T:
        metadata = plain.get("metadata") if isinstance(plain, dict) else None
        uid = metadata.get("uid") if isinstance(metadata, dict) else None
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        if not isinstance(uid, str) or not isinstance(version, str):
            return view(plain)
        found = kept.get((uid, version))
        if found is None:
            if len(kept) >= VIEWS_KEPT:
                kept.clear()  # old versions are never asked for again
            found = kept[uid, version] = view(plain)
        return found

    return look
