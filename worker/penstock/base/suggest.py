"""Unknown names are errors that name the nearest known one."""

from collections.abc import Iterable
from difflib import get_close_matches

_SESSIONS = "sessions have a shape of their own: ps.session('30m'); in a job file a step with session: {gap: 30m}"
_SLIDE = "the time between windows is the second part of the shape: ps.sliding('10m', '1m'); in a job file slide: 1m"
NOT_BUILT = {
    **dict.fromkeys(("slide", "hop", "every"), _SLIDE),
    **dict.fromkeys(("session", "gap"), _SESSIONS),
}


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to ``name``, or None when nothing is close."""
    matches = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Say that ``name`` is no known ``kind``, and which known one it is nearest to.

    What other engines have and this one does not is said so, not likened to something else.
    """
    if name in NOT_BUILT and name not in known:
        return f"unknown {kind} {name!r}: {NOT_BUILT[name]}"
    names = sorted(known)
    match = nearest(name, names)
    if match is not None:
        return f"unknown {kind} {name!r}: did you mean {match!r}?"
    if not names:
        return f"unknown {kind} {name!r}: there is none"
    return f"unknown {kind} {name!r}: known are {', '.join(names)}"
