"""Caches what was derived from an object, by its uid and version."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, cast

from penstock.contract.schema import Plain

T = TypeVar("T")
View = Callable[[Plain], object]
VIEWS_KEPT = 4096  # of one kind; a job has some dozen objects


@dataclass(slots=True)
class Versions:
    """A cache of views. Each reader of a cluster has its own.

    A uid and a version identify an object within one cluster only.
    """

    kept: dict[View, dict[tuple[str, str], object]] = field(default_factory=dict)

    def view(self, view: Callable[[Plain], T], plain: Plain) -> T:
        """Return ``view(plain)``, computed once per version. Callers must not change the result."""
        metadata = plain.get("metadata") if isinstance(plain, dict) else None
        uid = metadata.get("uid") if isinstance(metadata, dict) else None
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        if not isinstance(uid, str) or not isinstance(version, str):
            return view(plain)
        known = self.kept.setdefault(view, {})
        found = known.get((uid, version))
        if found is None:
            if len(known) >= VIEWS_KEPT:
                known.clear()  # old versions are never needed again
            found = known[uid, version] = view(plain)
        return cast("T", found)
