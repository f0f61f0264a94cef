"""Reading plain JSON without trusting it: each function returns what is there, or a zero value.

Times of objects are texts (RFC 3339, UTC). Functions here convert them to seconds and back.
"""

from datetime import UTC, datetime

from penstock.contract.schema import Plain

Object = dict[str, Plain]
DIGITS_MAX = 18  # of a number that somebody may have written as a text; more would be no int64


def at(plain: Plain, *path: str) -> Plain:
    """Return the value at ``path``; None when any part of the path is missing."""
    for name in path:
        if not isinstance(plain, dict):
            return None
        plain = plain.get(name)
    return plain


def text_at(plain: Plain, *path: str) -> str:
    """Return the text at ``path``, empty when there is none."""
    for name in path:  # as in `at`, without the call: an observation makes thousands of them
        if not isinstance(plain, dict):
            return ""
        plain = plain.get(name)
    return plain if isinstance(plain, str) else ""


def whole_at(plain: Plain, *path: str) -> int:
    """Return the whole number at ``path``, 0 when there is none."""
    found = at(plain, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def whole_of(text: str | None) -> int:
    """Read a whole number of at most :data:`DIGITS_MAX` digits, 0 when the text is none."""
    digits = text is not None and text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX
    return int(text or "0") if digits else 0


def object_at(plain: Plain, *path: str) -> Object:
    """Return the object at ``path``, empty when there is none."""
    found = at(plain, *path)
    return found if isinstance(found, dict) else {}


def list_at(plain: Plain, *path: str) -> list[Plain]:
    """Return the list at ``path``, empty when there is none."""
    found = at(plain, *path)
    return found if isinstance(found, list) else []


def texts_at(plain: Plain, *path: str) -> dict[str, str]:
    """Return an object whose values are texts, like labels; other values are left out."""
    return {k: v for k, v in object_at(plain, *path).items() if isinstance(v, str)}


def seconds(text: str | None) -> float:
    """Read a time as seconds since 1970; 0 when it is missing or invalid."""
    try:
        return datetime.fromisoformat(text or "").timestamp()
    except ValueError:
        return 0.0


LAST_S = 253402300799.0  # the end of the year 9999, the last that a time can have


def stamp(at_s: float) -> str:
    """Write seconds since 1970 as the API server does. Workers may tell any number: the nearest time is written."""
    return datetime.fromtimestamp(min(max(at_s, 0.0), LAST_S), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def name_stamp(at_s: float) -> str:
    """Write seconds since 1970 for the name of an object. Such names sort by time."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y%m%d-%H%M%S")
