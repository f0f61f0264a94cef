"""Keeps what was made of an object: uid and version say that it is the same one, unchanged."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, cast

from penstock.contract.schema import Plain

T = TypeVar("T")
View = Callable[[Plain], object]
VIEWS_KEPT = 4096  # of one kind; a job has some dozen objects


@dataclass(slots=True)
class Versions:
    """What was made of each version of the objects of one cluster; whoever looks at it owns one.

    A uid and a version name an object within one cluster only.
    """

    kept: dict[View, dict[tuple[str, str], object]] = field(default_factory=dict)

    def view(self, view: Callable[[Plain], T], plain: Plain) -> T:
        """Return ``view(plain)``, looked at once per version; nobody changes what is returned."""
        metadata = plain.get("metadata") if isinstance(plain, dict) else None
        uid = metadata.get("uid") if isinstance(metadata, dict) else None
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        if not isinstance(uid, str) or not isinstance(version, str):
            return view(plain)
        known = self.kept.setdefault(view, {})
        found = known.get((uid, version))
        if found is None:
            if len(known) >= VIEWS_KEPT:
                known.clear()  # old versions are never asked for again
            found = known[uid, version] = view(plain)
        return cast("T", found)
